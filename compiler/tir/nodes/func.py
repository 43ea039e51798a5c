"""Functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.ir.attrs import NO_ATTRS, as_attrs
from compiler.ir.base import GlobalVar, Span, Symbol
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.tir.nodes.axis import Var
from compiler.tir.nodes.base import Stmt, set_fields
from compiler.tir.nodes.buffer import Buffer
from compiler.tir.nodes.specialize import RenewedDefinitions, known_vars


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(BaseFunc):
    """A function over buffers and scalars. `params` are variables; `buffer_map` says which are buffers.

    Before lowering `body` is the BlockRealize of the root block. Known attrs: "global_symbol" (str),
    "tir.noalias" (bool), "target" (Target).
    """

    CHILDREN = ("body",)
    UNCOMPARED = BaseFunc.UNCOMPARED | {"buffer_map"}  # its keys and values are definitions

    params: tuple[Var, ...]  # buffers may be given among them
    body: Stmt
    ret_type: str | None = None
    buffer_map: Mapping[Var, Buffer] = field(default_factory=dict)
    attrs: Mapping[str, Any] = NO_ATTRS
    span: Span | None = None

    def __post_init__(self) -> None:
        """Make a handle of each parameter that was given as a buffer, and nothing of what was given as None."""
        set_fields(self, params=tuple(self.params), buffer_map=self.buffer_map or {}, attrs=as_attrs(self.attrs))
        buffers = {at: param for at, param in enumerate(self.params) if isinstance(param, Buffer)}
        if buffers:
            handles = {at: Var(buffer.name, "handle") for at, buffer in buffers.items()}
            mapped = {**self.buffer_map, **{handles[at]: buffer for at, buffer in buffers.items()}}
            object.__setattr__(self, "params", tuple(handles.get(at, param) for at, param in enumerate(self.params)))
            object.__setattr__(self, "buffer_map", mapped)

    def definitions(self) -> Iterator[Symbol]:
        """The parameters, then their buffers in the order of the parameters."""
        yield from self.params
        yield from (self.buffer_map[param] for param in self.params if param in self.buffer_map)

    def with_body(self, body: Stmt) -> PrimFunc:
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.ret_type, self.buffer_map, self.attrs, self.span)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function with parameters known: scalars as numbers, symbolic buffers as buffers of a shape.

        A scalar with a value is no parameter any more. The shape of a given buffer determines the symbols. Raises
        IRError for a key that is no parameter, or a buffer that does not fit.
        """
        known = known_vars(self.params, self.buffer_map, param_map)
        renewed = RenewedDefinitions(known)
        buffer_map = {param: renewed.buffer(buffer) for param, buffer in self.buffer_map.items()}
        body = renewed.node(self.body)
        assert isinstance(body, Stmt)
        params = tuple(param for param in self.params if param not in known)
        return PrimFunc(params, body, self.ret_type, buffer_map, self.attrs, self.span)


def prim_funcs(module: IRModule) -> dict[GlobalVar, PrimFunc]:
    """The TensorIR functions of a module; those of other dialects are left out."""
    return {name: func for name, func in module.items() if isinstance(func, PrimFunc)}
