"""Functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.ir.base import Node, Span
from compiler.tir.nodes.axis import Var
from compiler.tir.nodes.base import Stmt, text_of
from compiler.tir.nodes.buffer import Buffer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node):
    """A function over buffers and scalars. `params` are variables; `buffer_map` says which are buffers.

    Before lowering `body` is the BlockRealize of the root block. Known attrs: "global_symbol" (str),
    "tir.noalias" (bool), "target" (Target).
    """

    params: tuple[Var, ...]
    body: Stmt
    ret_type: str | None = None
    buffer_map: Mapping[Var, Buffer] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def with_body(self, body: Stmt) -> PrimFunc:
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.ret_type, self.buffer_map, self.attrs, self.span)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """A copy with the attribute `key`, or with all of a mapping."""
        return self.with_attrs(key if isinstance(key, Mapping) else {key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> PrimFunc:
        """A copy with further attributes."""
        return self._with_all_attrs({**self.attrs, **attrs})

    def without_attr(self, key: str) -> PrimFunc:
        """A copy without the attribute `key`."""
        return self._with_all_attrs({k: v for k, v in self.attrs.items() if k != key})

    def _with_all_attrs(self, attrs: Mapping[str, Any]) -> PrimFunc:
        return PrimFunc(self.params, self.body, self.ret_type, self.buffer_map, attrs, self.span)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function with parameters known: scalars as numbers, symbolic buffers as buffers of a shape.

        Raises IRError for a key that is no parameter, or a buffer that does not fit.
        """
        from compiler.tir.specialize import specialize

        return specialize(self, param_map)

    def show(self) -> None:
        """Print the function as TVMScript text."""
        print(text_of(self))

    def script(self) -> str:
        """The function as TVMScript text."""
        return text_of(self)

    def __repr__(self) -> str:
        return text_of(self)
