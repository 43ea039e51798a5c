"""A module: named functions of any dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from compiler.errors import IRError
from compiler.ir import text
from compiler.ir.attrs import as_attrs
from compiler.ir.base import GlobalVar, Node
from compiler.ir.function import BaseFunc
from compiler.ir.text_options import TextOptions


def _name(name: GlobalVar | str) -> GlobalVar:
    return GlobalVar(name) if isinstance(name, str) else name


class IRModule(Node):
    """Functions by name; behaves like a mapping from `GlobalVar` (or str) to function."""

    __slots__ = ("attrs", "functions", "global_infos")

    def __init__(
        self,
        functions: Mapping[Any, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """`functions` maps names (`GlobalVar` or str) to functions; `global_infos`, names to what they share.

        Known there: "vdevice", the devices that tensors of graphs name.
        """
        self.functions: dict[GlobalVar, BaseFunc] = {_name(k): f for k, f in (functions or {}).items()}
        self.attrs: Mapping[str, Any] = as_attrs(attrs)
        self.global_infos: dict[str, list[Any]] = {key: list(items) for key, items in (global_infos or {}).items()}

    @staticmethod
    def from_expr(expr: Any) -> IRModule:
        """A module with one function, named by its `global_symbol` or "main".

        An expression of a dialect that says how (`as_function`) becomes a function of its free variables.
        """
        made = getattr(expr, "as_function", None)
        expr = expr if made is None else made()
        if not isinstance(expr, BaseFunc):
            raise IRError(f"IRModule.from_expr needs a function, got {type(expr).__name__}")
        return IRModule({str(expr.attrs.get("global_symbol", "main")): expr})

    def __getitem__(self, name: GlobalVar | str) -> BaseFunc:
        key = _name(name)
        try:
            return self.functions[key]
        except KeyError:
            known = ", ".join(g.name_hint for g in self.functions) or "none"
            raise IRError(f"the module has no function {key.name_hint!r}", hint=f"it has: {known}") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, GlobalVar | str) and _name(name) in self.functions

    def __setitem__(self, name: GlobalVar | str, func: BaseFunc) -> None:
        if not isinstance(func, BaseFunc):
            raise IRError(f"a module holds functions, not {type(func).__name__}")
        self.functions[_name(name)] = func

    def __delitem__(self, name: GlobalVar | str) -> None:
        self[name]
        del self.functions[_name(name)]

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        return list(self.functions.items())

    def keys(self) -> list[GlobalVar]:
        return list(self.functions)

    def values(self) -> list[BaseFunc]:
        return list(self.functions.values())

    def get(self, name: GlobalVar | str, default: BaseFunc | None = None) -> BaseFunc | None:
        return self.functions.get(_name(name), default)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """The functions in order of their names."""
        return sorted(self.functions.items(), key=lambda item: item[0].name_hint)

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Add the functions of `other`; one of the same name is replaced."""
        for name, func in other.items():
            self[name] = func

    def update_func(self, name: GlobalVar | str, func: BaseFunc) -> None:
        """Put `func` in the place of the function `name`. Raises IRError when there is none."""
        self[name]
        self[name] = func

    def merge(self, *others: IRModule) -> IRModule:
        """A module with the functions and attributes of this one and of `others`, later ones winning."""
        attrs = dict(self.attrs)
        for other in others:
            attrs.update(other.attrs)
        merged = IRModule(self.functions, attrs, self.global_infos)
        for other in others:
            merged.update(other)
            merged.global_infos.update(other.global_infos)
        return merged

    def with_attr(self, key: str, value: Any) -> IRModule:
        """A copy with the attribute `key`."""
        return IRModule(self.functions, {**self.attrs, key: value}, self.global_infos)

    def without_attr(self, key: str) -> IRModule:
        """A copy without the attribute `key`."""
        rest = {k: v for k, v in self.attrs.items() if k != key}
        return IRModule(self.functions, rest, self.global_infos)

    def get_attr(self, key: str) -> Any:
        """The attribute `key`, None when there is none."""
        return self.attrs.get(key)

    def get_global_var(self, name: str) -> GlobalVar:
        """The `GlobalVar` called `name`; raises IRError when there is none."""
        self[name]
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    def update_global_info(self, name: str, infos: Sequence[Any]) -> None:
        """Put `infos` in the place of the shared values `name`."""
        self.global_infos[name] = list(infos)

    def with_functions(self, functions: Mapping[GlobalVar, BaseFunc]) -> IRModule:
        """A copy whose functions are `functions`."""
        return IRModule(functions, self.attrs, self.global_infos)

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the module as TVMScript text, as `script` gives it."""
        print(self.script(**options))

    def script(
        self, *, name: str | None = None, show_meta: bool = False, indent_spaces: int = 4,
        **options: Unpack[TextOptions],
    ) -> str:  # fmt: skip
        """The module as TVMScript text; with `show_meta`, large constants stand before it. A module is called
        Module: `name` is for functions."""
        return text.printed(self, None, show_meta, indent_spaces, options)

    def astext(self, show_meta_data: bool = True, annotate: object = None) -> str:
        """Return the module as text, without large constants.
        Both options are accepted for compatibility with TVM."""
        return self.script()

    def __repr__(self) -> str:
        return text.printed(self)


text.register_text(IRModule, text.module_text)
