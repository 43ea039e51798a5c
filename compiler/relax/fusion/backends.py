"""The registry of users' backends: patterns that they compute, and code generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from compiler.errors import ArgumentError
from compiler.relax.fusion.composite import FusionPattern, as_fusion_pattern
from compiler.relax.nodes import Function
from compiler.runtime.core.registry import get_global_func
from compiler.suggest import closest

Codegen = Callable[[Sequence[Function], Mapping[str, Any]], Any]
"""`codegen(functions, options)`: what computes each function under its "global_symbol".

It gives an IRModule of kernels of these names, or a list of runtime modules that have them. None (or no modules) means
packed functions of these names, which are registered where the model runs.
"""

_patterns: dict[str, FusionPattern] = {}
_codegens: dict[str, Codegen] = {}


def register_patterns(patterns: Sequence[FusionPattern | Sequence[Any]]) -> None:
    """Register patterns by their names; earlier ones of the list come first.
    Later calls come before earlier calls."""
    given = {pattern.name: pattern for pattern in map(as_fusion_pattern, patterns)}
    rest = {name: pattern for name, pattern in _patterns.items() if name not in given}
    _patterns.clear()
    _patterns.update({**given, **rest})


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern registered under `name`, None where there is none."""
    return _patterns.get(name)


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns whose names begin with `prefix`, in the order in which they are tried."""
    return [pattern for name, pattern in _patterns.items() if name.startswith(prefix)]


@overload
def register_codegen(name: str, codegen: Codegen) -> Codegen: ...
@overload
def register_codegen(name: str, codegen: None = None) -> Callable[[Codegen], Codegen]: ...
def register_codegen(name: str, codegen: Codegen | None = None) -> Any:
    """Have `codegen` (or the decorated function) make code of functions whose "Codegen" is `name`.
    See `Codegen`."""

    def register(function: Codegen) -> Codegen:
        _codegens[name] = function
        return function

    return register if codegen is None else register(codegen)


def find_codegen(name: str) -> Codegen:
    """The code generator `name`: a registered one, or the global function `relax.ext.<name>`.

    Raises ArgumentError where there is neither.
    """
    if name in _codegens:
        return _codegens[name]
    found = get_global_func(f"relax.ext.{name}", allow_missing=True)
    if found is None:
        hint = closest(name, _codegens) or "relax.backend.register_codegen registers one"
        raise ArgumentError(f"there is no code generator {name!r}", hint=hint)
    external = found
    return lambda functions, options: external(list(functions), dict(options), {})
