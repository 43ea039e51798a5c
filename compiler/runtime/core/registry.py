"""Functions known by name to the whole process, such as the preprocessors of `time_evaluator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from compiler.errors import TunefarmError
from compiler.runtime.core.packed import PackedFunc, packed

AnyFunction = Callable[..., Any]


class RegistryError(TunefarmError, ValueError, kind="registry"):
    """A global function that is not registered, or already is."""


_functions: dict[str, PackedFunc] = {}


@overload
def register_func(func_name: AnyFunction, f: None = None, override: bool = False) -> PackedFunc: ...
@overload
def register_func(func_name: str, f: AnyFunction, override: bool = False) -> PackedFunc: ...
@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[AnyFunction], PackedFunc]: ...
def register_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a global function: `@register_func`, `@register_func("name")`, `register_func("name", f)`.

    Returns it as a packed function. Raises RegistryError (a ValueError) if the name is taken and `override` is false.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not isinstance(func_name, str) or not func_name:
        raise RegistryError(f"a global function's name is a string, not {func_name!r}")

    def register(function: AnyFunction) -> PackedFunc:
        if not callable(function):
            raise RegistryError(f"global function {func_name!r}: {function!r} cannot be called")
        if func_name in _functions and not override:
            raise RegistryError(
                f"a global function {func_name!r} is already registered", hint="pass override=True to replace it"
            )
        _functions[func_name] = packed(function)
        return _functions[func_name]

    return register if f is None else register(f)


@overload
def get_global_func(name: str) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """A registered function. Raises RegistryError when it is missing and may not be."""
    function = _functions.get(name)
    if function is None and not allow_missing:
        raise RegistryError(
            f"there is no global function {name!r}",
            hint=f'register it with `@register_func("{name}")`; there are: {", ".join(sorted(_functions)) or "none"}',
        )
    return function


def remove_global_func(name: str) -> None:
    """Forget a registered function, if there is one of that name."""
    _functions.pop(name, None)


def list_global_func_names() -> list[str]:
    """Names of the registered functions, sorted."""
    return sorted(_functions)
