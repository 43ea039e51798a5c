"""A family: a function at many sizes.

Most are named workloads whose sizes are partly symbols, "dense:M,3072,768".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.errors import TunefarmError
from compiler.size_rule import Size
from compiler.target.target import Target
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from tuner.families.function import FunctionSpec, check_symbols, general_form, general_key
from tuner.families.sizes import MOST_EXTENT, FamilyError, SizeList, check_names
from tuner.task import TuningTask
from tuner.workloads import OPERATORS, WorkloadSpec


@dataclass(frozen=True)
class FamilySpec:
    """A named workload of which some sizes are symbols. A symbol that stands twice is one size."""

    op: str
    args: tuple[int | str, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not self.symbols:
            raise FamilyError(f"{self} has no symbol", hint="write a name for a size that varies: dense:M,3072,768")
        check_names(self.symbols)
        self._check_fixed()
        self.at(SizeList(self.symbols, ((1,) * len(self.symbols),)), (1,) * len(self.symbols))

    def _check_fixed(self) -> None:
        """Raise FamilyError for a symbol where code for any value cannot be made: a stride, a padding."""
        if (operator := OPERATORS.get(self.op)) is None:
            return
        for name, value in zip(operator.optional, self.args[len(operator.sizes) :]):
            if isinstance(value, str):
                raise FamilyError(
                    f"the {name} of {self.op} cannot vary in a family, as {value} in {self} does",
                    hint=f"tune a family for each {name}",
                )

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols in the order in which they first stand."""
        return tuple(dict.fromkeys(arg for arg in self.args if isinstance(arg, str)))

    def __str__(self) -> str:
        return f"{self.op}:{','.join(map(str, self.args))}:{self.dtype}"

    @staticmethod
    def is_family(text: str) -> bool:
        """Whether the text is a workload with a symbol among its sizes."""
        parts = text.strip().split(":")
        return (
            len(parts) in (2, 3)
            and parts[0] in OPERATORS
            and any(word.strip().isidentifier() for word in parts[1].split(","))
        )

    @staticmethod
    def parse(text: str) -> FamilySpec:
        """`op:sizes[:dtype]` with names for sizes that vary. Raises FamilyError, WorkloadError."""
        parts = text.strip().split(":")
        if len(parts) not in (2, 3) or parts[0] not in OPERATORS:
            WorkloadSpec.parse(text)  # which says what is wrong
            raise FamilyError(f"{text!r} is no family of workloads")
        args: list[int | str] = []
        for word in map(str.strip, parts[1].split(",")):
            if word.isidentifier():
                args.append(word)
            elif word.isdecimal() and len(word) <= len(str(MOST_EXTENT)):
                args.append(int(word))
            else:
                raise FamilyError(f"{word!r} in {text!r} is neither a size nor a name", hint="dense:M,3072,768")
        return FamilySpec(parts[0], tuple(args), parts[2] if len(parts) == 3 else "float32")

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "args": list(self.args), "dtype": self.dtype}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FamilySpec:
        """The inverse of `to_json`. Raises FamilyError."""
        try:
            args = tuple(arg if isinstance(arg, str) else int(arg) for arg in data["args"])
            return FamilySpec(str(data["op"]), args, str(data.get("dtype", "float32")))
        except (KeyError, TypeError, ValueError) as error:
            raise FamilyError(f"not a family of workloads: {data!r} ({error})") from None

    def check(self, sizes: SizeList) -> None:
        """Raise FamilyError unless the symbols of both are the same and the workload exists at each size."""
        check_symbols(self.symbols, sizes, str(self))
        for size in sizes.sizes:
            try:
                self.at(sizes, size).prim_func()
            except TunefarmError as error:
                raise FamilyError(f"{self} is not possible at {sizes.text(size)}: {error.message}") from None

    def at(self, sizes: SizeList, size: Size) -> WorkloadSpec:
        """The workload at one size. Raises WorkloadError."""
        values = dict(zip(sizes.symbols, size, strict=True))
        spec = WorkloadSpec(self.op, tuple(values[a] if isinstance(a, str) else a for a in self.args), self.dtype)
        spec.check()
        return spec

    def task(self, sizes: SizeList, size: Size, target: Target | str) -> TuningTask:
        """The task of one size."""
        return TuningTask.from_spec(self.at(sizes, size), target)

    def func_at(self, sizes: SizeList, size: Size) -> n.PrimFunc:
        """The function at one size. Raises WorkloadError."""
        return self.at(sizes, size).prim_func()

    @cached_property
    def key(self) -> str:
        """Its key: equal for families of equal functions, however their sizes are called."""
        return general_key(self.general())

    def general(self) -> n.PrimFunc:
        """The function at any size: its shapes hold the symbols as variables."""
        variables = {symbol: n.SizeVar(symbol, "int32") for symbol in self.symbols}
        args: tuple[Any, ...] = tuple(variables[a] if isinstance(a, str) else a for a in self.args)
        spec = WorkloadSpec(self.op, args, self.dtype)  # in te a size may be an expression
        found = general_form(create_prim_func(OPERATORS[self.op].build(spec), name=self.op))
        if found is None:
            raise FamilyError(f"{self} has no form for any size", hint="tune its sizes alone")
        return found


AnySpec = FamilySpec | FunctionSpec


@dataclass(frozen=True)
class Family:
    """A function and the sizes that it is tuned for, as one. Raises FamilyError where they do not fit."""

    spec: AnySpec
    sizes: SizeList

    def __post_init__(self) -> None:
        self.spec.check(self.sizes)

    def tasks(self, target: Target | str) -> tuple[TuningTask, ...]:
        """The tasks of all sizes, in their order."""
        return tuple(self.spec.task(self.sizes, size, target) for size in self.sizes.sizes)


def spec_from_json(what: Mapping[str, Any], name: str = "") -> AnySpec:
    """The function that a record names. Raises FamilyError for a kernel of somebody's own."""
    if "function" in what:
        return FunctionSpec.from_json(what)
    if "op" not in what:
        raise FamilyError(f"{name or what.get('name', 'it')} is a kernel of a file: it is built where that is")
    return FamilySpec.from_json(what)


def family_key(what: Mapping[str, Any]) -> str:
    """The key of a record's function.
    It is equal for equal functions, whatever their sizes are called. That of a kernel in a file follows from the
    file's content, wherever it lies."""
    if "function" in what or "op" in what:
        return spec_from_json(what).key
    named = {name: value for name, value in what.items() if name != "file"}
    text = json.dumps({"family": named}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
