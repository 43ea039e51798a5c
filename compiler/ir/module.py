"""A module: named functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node
from compiler.tir.nodes import PrimFunc


class IRModule(Node):
    """Functions by name; behaves like a mapping from `GlobalVar` (or str) to function."""

    __slots__ = ("attrs", "functions")

    def __init__(
        self,
        functions: Mapping[Any, PrimFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """`functions` maps names (`GlobalVar` or str) to functions."""
        self.functions: dict[GlobalVar, PrimFunc] = {
            GlobalVar(k) if isinstance(k, str) else k: f for k, f in (functions or {}).items()
        }
        self.attrs: dict[str, Any] = dict(attrs or {})

    @staticmethod
    def from_expr(expr: PrimFunc) -> IRModule:
        """A module with one function, named by its `global_symbol` or "main"."""
        if not isinstance(expr, PrimFunc):
            raise IRError(f"IRModule.from_expr needs a function, got {type(expr).__name__}")
        return IRModule({str(expr.attrs.get("global_symbol", "main")): expr})

    def __getitem__(self, name: GlobalVar | str) -> PrimFunc:
        key = GlobalVar(name) if isinstance(name, str) else name
        try:
            return self.functions[key]
        except KeyError:
            known = ", ".join(g.name_hint for g in self.functions) or "none"
            raise IRError(f"the module has no function {key.name_hint!r}", hint=f"it has: {known}") from None

    def __contains__(self, name: object) -> bool:
        return (GlobalVar(name) if isinstance(name, str) else name) in self.functions

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def items(self) -> list[tuple[GlobalVar, PrimFunc]]:
        return list(self.functions.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """The `GlobalVar` called `name`; raises IRError when there is none."""
        self[name]
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    def with_functions(self, functions: Mapping[GlobalVar, PrimFunc]) -> IRModule:
        """A copy whose functions are `functions`."""
        return IRModule(functions, self.attrs)

    def script(self) -> str:
        """The module as TVMScript text."""
        from compiler.tir.printer import script

        return script(self)

    __repr__ = script
