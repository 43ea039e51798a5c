"""Functions with other implementations for other targets.

`@generic_func`, chosen by the current target's keys.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from compiler.errors import TargetError
from compiler.target.target import Target


class GenericFunc:
    """A function with one implementation for each key.
    A call uses the first of the current target's keys that has an implementation, else the default."""

    def __init__(self, name: str, default: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.__name__ = name
        self._default = default
        self._by_key: dict[str, Callable[..., Any]] = {}

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Set the default function. Raises TargetError if there is one that may not be replaced."""
        if self._default is not None and not allow_override:
            raise TargetError(f"{self.name} already has a default", hint="pass allow_override=True to replace it")
        self._default = func

    def register(self, func: Callable[..., Any], key_list: Sequence[str], allow_override: bool = False) -> None:
        """Set the function for targets with one of these keys. Raises TargetError when a key is taken."""
        keys = [key_list] if isinstance(key_list, str) else list(key_list)
        taken = [key for key in keys if key in self._by_key]
        if taken and not allow_override:
            raise TargetError(
                f"{self.name} is already registered for {taken[0]!r}", hint="pass allow_override=True to replace it"
            )
        self._by_key.update(dict.fromkeys(keys, func))

    @property
    def by_key(self) -> Mapping[str, Callable[..., Any]]:
        """The implementations by the key that they are for."""
        return MappingProxyType(self._by_key)

    def get_packed_func(self) -> Callable[..., Any]:
        """The implementation for the current target. Raises TargetError when there is none."""
        target = Target.current()
        for key in () if target is None else target.keys:
            if key in self._by_key:
                return self._by_key[key]
        if self._default is None:
            raise TargetError(
                f"{self.name} has no default, and nothing for {'no target' if target is None else target}",
                hint=f"it is registered for: {', '.join(sorted(self._by_key)) or 'nothing'}",
            )
        return self._default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_packed_func()(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<GenericFunc {self.name}: {', '.join(sorted(self._by_key)) or 'default only'}>"


_named: dict[str, GenericFunc] = {}


def get_native_generic_func(name: str) -> GenericFunc:
    """Return the generic function of that name; it is made on first use."""
    return _named.setdefault(name, GenericFunc(name))


def generic_func(fdefault: Callable[..., Any]) -> Any:
    """Make a function generic.
    The result has `register(key or keys, func=None, override=False)`, also a decorator, `fdefault`, the function
    it was made of, and `dispatch_dict`, the others by key."""
    return _wrapped(GenericFunc(fdefault.__name__, fdefault), fdefault)


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate as `generic_func` does, replacing the default of the generic function `func_name`.

    Implementations registered for keys before stay.
    """

    def decorate(fdefault: Callable[..., Any]) -> Any:
        generic = get_native_generic_func(func_name)
        generic.set_default(fdefault, allow_override=True)
        return _wrapped(generic, fdefault)

    return decorate


def _wrapped(generic: GenericFunc, fdefault: Callable[..., Any]) -> Any:
    @functools.wraps(fdefault)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        return generic(*args, **kwargs)

    def register(key: str | Sequence[str], func: Callable[..., Any] | None = None, override: bool = False) -> Any:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            generic.register(function, [key] if isinstance(key, str) else key, override)
            return function

        return add if func is None else add(func)

    vars(dispatch).update(fdefault=fdefault, register=register, dispatch_dict=generic.by_key, generic_func_node=generic)
    return dispatch
