"""Graph functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.errors import IRError
from compiler.ir.attrs import Attrs, as_attrs
from compiler.ir.base import RelaxExpr, Span
from compiler.ir.function import BaseFunc
from compiler.relax.nodes.base import Expr, StructInfo, info_of
from compiler.relax.nodes.binding import SeqExpr, as_seq
from compiler.relax.nodes.dims import dim
from compiler.relax.nodes.expr import Var, const, convert_to_expr
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.struct_info import FuncStructInfo
from compiler.relax.nodes.symbols import signature_symbols, symbols_in
from compiler.relax.nodes.unify import Values, unify
from compiler.runtime.core.ndarray import NDArray
from compiler.suggest import closest
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.base import set_fields


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Function(BaseFunc, Expr):
    """A function over graph values. Dimensions that its parameters name are its own.

    Known attributes: "global_symbol" (str), the name it is called by from outside; "Primitive" (1 for one that
    becomes a single kernel); "Composite" and "Codegen" (names a backend looks for).
    """

    CHILDREN = ("body",)
    DEFINES = ("params",)
    UNCOMPARED = Expr.UNCOMPARED

    params: tuple[Var, ...]
    body: SeqExpr
    ret_struct_info: StructInfo
    is_pure: bool
    attrs: Attrs
    span: Span | None
    struct_info_: StructInfo | None = field(init=False)

    def __init__(
        self, params: list[Var] | tuple[Var, ...], body: RelaxExpr, ret_struct_info: StructInfo | None = None,
        is_pure: bool | None = True, attrs: Mapping[str, Any] | None = None, span: Span | None = None,
    ) -> None:  # fmt: skip
        """A function of `params` that returns `body`. Without `ret_struct_info`, what `body` is known to be."""
        own = _checked(params)
        seq = as_seq(body)
        found = ret_struct_info if ret_struct_info is not None else info_of(seq)
        if found is None:
            raise IRError("a function needs ret_struct_info, or a body that was normalised")
        self._fill(own, seq, found, is_pure, attrs, span)

    def _fill(
        self, params: tuple[Var, ...], body: SeqExpr | None, ret: StructInfo, is_pure: bool | None,
        attrs: Mapping[str, Any] | None, span: Span | None,
    ) -> None:  # fmt: skip
        pure = True if is_pure is None else bool(is_pure)
        info = FuncStructInfo(tuple([param.struct_info for param in params]), ret, pure)
        set_fields(
            self, params=params, body=body, ret_struct_info=ret, is_pure=pure, attrs=as_attrs(attrs), span=span,
            struct_info_=info,
        )  # fmt: skip

    @staticmethod
    def create_empty(
        params: list[Var] | tuple[Var, ...],
        ret_struct_info: StructInfo,
        is_pure: bool | None = True,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> Function:
        """A function without a body: a declaration that others can call before it is written."""
        made = object.__new__(Function)
        made._fill(_checked(params), None, ret_struct_info, is_pure, attrs, span)
        return made

    def bind_symbolic_vars(self, binding_map: Mapping[str | n.Var, PrimExpr]) -> Function:
        """The function with dimensions replaced, given by variable or by its name.

        Raises IRError for one that the function does not have, and for a name that several have.
        """
        known = self.symbolic_vars()
        values: dict[n.Var, PrimExpr] = {}
        for key, value in binding_map.items():
            var = _one(key, known, lambda var: var.name, "symbolic variable")
            if var in values:
                raise IRError(f"the symbolic variable {var.name} is bound twice")
            values[var] = dim(value, f"the value of {var.name}")
        return Renewal(symbols=values).function(self)

    def bind_params(
        self, binding_map: Mapping[str | Var, int | float | PrimExpr | NDArray | np.ndarray[Any, Any] | RelaxExpr]
    ) -> Function:
        """The function with parameters replaced by values, given by variable or by its name.

        Dimensions that the values tell are replaced, too. Raises IRError for a key that is no parameter or a name
        that several have, and for a value that does not fit.
        """
        values: dict[Var, RelaxExpr] = {}
        symbols = Values()
        for key, value in binding_map.items():
            param = _one(key, self.params, lambda var: var.name_hint, "parameter")
            if param in values:
                raise IRError(f"the parameter {param.name_hint} is bound twice")
            expr = _as_argument(value)
            found = unify(param.struct_info, info_of(expr), symbols)
            if found is not None:
                raise IRError(
                    f"the parameter {param.name_hint} is a {param.struct_info}; {info_of(expr)} does not fit: {found}"
                )
            values[param] = expr
        return Renewal(variables=values, symbols=symbols.found).function(self)

    def symbolic_vars(self) -> list[n.Var]:
        """The variables for dimensions that the signature mentions, each once, in order."""
        info = self.struct_info_
        assert isinstance(info, FuncStructInfo)
        mentioned = [var for param in self.params for var in symbols_in(param.struct_info)]
        return list(dict.fromkeys([*signature_symbols(info), *mentioned, *symbols_in(self.ret_struct_info)]))


def _checked(params: Any) -> tuple[Var, ...]:
    own = tuple(params) if isinstance(params, tuple | list) else (params,)
    for position, param in enumerate(own):
        if not isinstance(param, Var):
            raise IRError(f"parameter {position} of a function is {param!r} ({type(param).__name__}), no relax.Var")
        if param.struct_info_ is None:
            raise IRError(f"the parameter {param.name_hint} has no StructInfo", hint="Var(name, struct_info)")
        if any(param is other for other in own[:position]):
            raise IRError(f"the parameter {param.name_hint} is given twice")
    return own


def _one(key: Any, known: Sequence[Any], name: Any, what: str) -> Any:
    """The variable of `known` that `key` is, or is the name of."""
    if not isinstance(key, str):
        if any(key is var for var in known):
            return key
        raise IRError(f"{key!r} is no {what} of the function", hint=closest("", map(name, known)))
    found = [var for var in known if name(var) == key]
    if len(found) > 1:
        raise IRError(f"the function has {len(found)} {what}s called {key!r}", hint="give the variable, not its name")
    if not found:
        raise IRError(f"the function has no {what} {key!r}", hint=closest(key, map(name, known)))
    return found[0]


def _as_argument(value: Any) -> RelaxExpr:
    if isinstance(value, np.ndarray | NDArray | np.generic):
        return const(value)  # type: ignore[arg-type]
    return convert_to_expr(value)  # type: ignore[no-any-return]
