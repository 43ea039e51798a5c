"""Specifications of exported methods: the shapes and types of their arguments.

    {"forward": {"x": spec.Tensor(["batch", 64], "float32"), "length": int}}

Text in a shape names a symbolic dimension; the same name in one method is the same dimension.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from compiler.errors import ArgumentError
from compiler.suggest import closest

Spec = Union["Int", "Object", "Tensor", "Tuple"]
MODES = ("plain", "packed", "none")


class Int:
    """An integer, which is a symbolic size in the method. It is passed as a shape of one number."""

    def __repr__(self) -> str:
        return "int"


class Object:
    """A value of the runtime; `object_type` is the class of `nn.Object` that the method gets."""

    def __init__(self, object_type: type[Any] | None = None) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return "object"


class Tensor:
    """A tensor of a shape and an element type."""

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        self.shape = list(shape)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Tuple:
    """Several values, passed as a tuple."""

    def __init__(self, name: str, elements: Sequence[Any]) -> None:
        self.name = name
        self.elements = tuple(_spec(element, name) for element in elements)

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self.elements))})"


@dataclass(frozen=True)
class MethodSpec:
    """One method: its arguments, and how it takes parameters and effects.

    `param_mode` and `effect_mode`: "plain" gives each an argument, "packed" all of them one tuple, "none" leaves them
    out.
    """

    method: Any
    arg_names: tuple[str, ...]
    arg_specs: tuple[Spec, ...]
    param_mode: str = "plain"
    effect_mode: str = "plain"


@dataclass(frozen=True)
class ModuleSpec:
    """The methods of a module that are exported, by name."""

    module: Any
    methods: Mapping[str, MethodSpec]

    @staticmethod
    def from_raw(raw: Any, module: Any) -> ModuleSpec:
        """Return what a user writes, checked. Raises ArgumentError naming what does not fit the methods."""
        if isinstance(raw, ModuleSpec):
            return raw
        if not isinstance(raw, Mapping):
            raise ArgumentError(f"a spec is a dict of methods, not {type(raw).__name__}")
        return ModuleSpec(module, {name: _method(name, given, module) for name, given in raw.items()})


def _method(name: str, raw: Any, module: Any) -> MethodSpec:
    if isinstance(raw, MethodSpec):
        return raw
    method = getattr(module, name, None)
    if not callable(method):
        public = (each for each in dir(type(module)) if not each.startswith("_"))
        known = [each for each in public if callable(getattr(module, each, None))]
        raise ArgumentError(f"{type(module).__name__} has no method {name!r}", hint=closest(name, known))
    given = dict(raw)
    options = dict(given.pop("$", {}))
    modes = [options.pop(key, "plain") for key in ("param_mode", "effect_mode")]
    if options or any(mode not in MODES for mode in modes):
        raise ArgumentError(f'"$" of {name} may have param_mode and effect_mode: {", ".join(MODES)}')
    names = tuple(inspect.signature(method).parameters)
    missing = [each for each in names if each not in given]
    unknown = [each for each in given if each not in names]
    if missing or unknown:
        raise ArgumentError(
            f"the spec of {name}: missing {', '.join(missing) or 'none'}, unknown {', '.join(unknown) or 'none'}",
            hint=f"it takes ({', '.join(names)})",
        )
    return MethodSpec(method, names, tuple(_spec(given[each], each) for each in names), *modes)


def _spec(raw: Any, name: str) -> Spec:
    if isinstance(raw, Int | Object | Tensor | Tuple):
        return raw
    if raw is int:
        return Int()
    if isinstance(raw, list | tuple):
        return Tuple(name, raw)
    hint = "spec.Tensor(shape, dtype), int, or a list of specs"
    raise ArgumentError(f"the argument {name} has the spec {raw!r}", hint=hint)
