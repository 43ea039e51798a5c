"""A function of a graph as a family: TensorIR whose shapes hold variables, the symbols of the family."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.errors import TunefarmError
from compiler.extents import MAX_NAME, can_be_name
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.lower.blocks.sizes import narrow_indices, with_sizes
from compiler.script.entry import from_source
from compiler.size_rule import Size
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.text.print_func import workload_key
from tuner.families.sizes import FamilyError, SizeList
from tuner.task import TuningTask

_KEPT_ATTRS = ("tir.noalias",)


@dataclass(frozen=True)
class FunctionSpec:
    """A function whose arguments tell its sizes.
    `symbols` names them, in the order in which they stand."""

    name: str
    func: n.PrimFunc
    symbols: tuple[str, ...]

    @staticmethod
    def of(func: n.PrimFunc, name: str) -> FunctionSpec | None:
        """Return the family of a function.

        None for one of constant sizes, and if its arguments do not tell them all. The function is renewed so that
        equal families have equal functions: indices are int32, and notes of a graph are left out.
        """
        plain = general_form(func)
        return None if plain is None else FunctionSpec(name, plain, _symbols(plain))

    def __str__(self) -> str:
        return self.name

    @cached_property
    def key(self) -> str:
        """Its key: equal for functions equal up to names."""
        return general_key(self.func)

    def to_json(self) -> dict[str, Any]:
        return {"function": self.func.script(), "name": self.name, "symbols": list(self.symbols)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FunctionSpec:
        """The inverse of `to_json`. Raises FamilyError."""
        try:
            func, name = from_source(str(data["function"])), str(data["name"])
        except (KeyError, TunefarmError) as error:
            raise FamilyError(f"not a function of many sizes: {error}") from None
        found = FunctionSpec.of(func, name) if isinstance(func, n.PrimFunc) else None
        if found is None or len(found.symbols) != len(data.get("symbols", ())):
            raise FamilyError(f"{name} is no function of many sizes")
        return FunctionSpec(name, found.func, tuple(map(str, data["symbols"])))

    def check(self, sizes: SizeList) -> None:
        """Raise FamilyError unless the symbols of both are the same."""
        check_symbols(self.symbols, sizes, str(self))

    def task(self, sizes: SizeList, size: Size, target: Target | str) -> TuningTask:
        """The task of one size."""
        func = self.func_at(sizes, size)
        return TuningTask(f"{self.name} at {sizes.text(size)}", func, Target(target))

    def func_at(self, sizes: SizeList, size: Size) -> n.PrimFunc:
        """The function at one size."""
        values = dict(zip(sizes.symbols, size, strict=True))
        found = [shape.var for shape in shape_vars(self.func)]
        return with_sizes(self.func, dict(zip(found, (values[symbol] for symbol in self.symbols), strict=True)))

    def general(self) -> n.PrimFunc:
        """The function at any size."""
        return self.func


def check_symbols(symbols: Sequence[str], sizes: SizeList, name: str) -> None:
    """Raise FamilyError unless the symbols of a function and of a list of sizes are the same."""
    if missing := [symbol for symbol in symbols if symbol not in sizes.symbols]:
        raise FamilyError(f"{name} has no sizes for {missing[0]}", hint=f"--shapes {missing[0]}=1,16,128")
    if strange := [symbol for symbol in sizes.symbols if symbol not in symbols]:
        raise FamilyError(
            f"there are sizes for {strange[0]}, which {name} does not have",
            hint=f"its symbols are {', '.join(symbols)}",
        )


def general_form(func: n.PrimFunc) -> n.PrimFunc | None:
    """The function as families have it; None for one that is none."""
    if len(func.buffer_map) != len(func.params):
        return None
    try:
        if not shape_vars(func):
            return None
    except TunefarmError:
        return None
    narrow = narrow_indices(func)
    if narrow is None:
        return None
    attrs = {name: value for name, value in narrow.attrs.items() if name in _KEPT_ATTRS}
    return n.PrimFunc(narrow.params, narrow.body, narrow.ret_type, narrow.buffer_map, attrs)


def general_key(func: n.PrimFunc) -> str:
    """Return what a function in general form computes, as a digest."""
    return hashlib.sha256(f"family {workload_key(func)}".encode()).hexdigest()


def _symbols(func: n.PrimFunc) -> tuple[str, ...]:
    """The names of a function's sizes, told apart where two have one name."""
    names: list[str] = []
    for shape in shape_vars(func):
        stem, number = _usable(shape.var.name), 1
        name = stem
        while name in names:
            number += 1
            name = f"{stem}_{number}"
        names.append(name)
    return tuple(names)


def _usable(name: str) -> str:
    """A size's name made of a dimension's, which a model may call anything."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII)[: MAX_NAME // 2]
    return made if can_be_name(made) else f"size_{made}"
