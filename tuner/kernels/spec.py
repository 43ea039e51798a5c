"""A tuning job in TOML: what to tune, kernels of one's own in C, and how the run goes.

No file is read here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from compiler.errors import TunefarmError
from tuner.engine.options import RunOptions
from tuner.errors import TuningError
from tuner.families.family import FamilySpec
from tuner.families.plan import PORTFOLIO
from tuner.families.sizes import SizeList, parse_shapes
from tuner.kernels.csource import Argument, CSource
from tuner.kernels.includes import Header
from tuner.kernels.kernel import CKernel
from tuner.kernels.python_source import PythonSource
from tuner.kernels.space import Config, KernelSpace, number
from tuner.workloads import WorkloadSpec

T = TypeVar("T")

_FILE_KEYS = ("run", "workloads", "kernel", "family")
_FAMILY_KEYS = ("workload", "shapes", "traffic", "portfolio")
_SIZED_KEYS = _FAMILY_KEYS[1:]
_KERNEL_KEYS = (
    "name", "source", "entry", "compiler", "args", "reference", "constraints", "space", "flops", "baseline",
    *_SIZED_KEYS,
)  # fmt: skip
_BASELINE_KEYS = ("source", "entry", "compiler", "name")
_MOST_SOURCES = 100
_LONGEST_NAME = 100  # of a baseline
_ARGUMENT_KEYS = ("name", "dtype", "shape", "output")
_RUN_TYPES: dict[str, type] = {f.name: type(f.default) for f in fields(RunOptions) if f.name != "workloads"}
_REQUIRED = object()
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table"}


class SpecError(TuningError, ValueError, kind="spec"):
    """A file that says what to tune is missing, can't be read or says something impossible."""


@dataclass(frozen=True)
class SizesTable:
    """The keys that say which sizes a family has.
    `traffic` is a path as it is written, relative to the file."""

    sizes: SizeList
    traffic: str | None
    portfolio: int


@dataclass(frozen=True)
class FamilyTable:
    """A `[[family]]` table."""

    spec: FamilySpec
    sized: SizesTable
    where: str


@dataclass(frozen=True)
class BaselineTable:
    """A `[kernel.baseline]` table: a function of the kernel's arguments that does the same.
    It is in C or in Python. The table also has what reports call it."""

    source: str
    entry: str
    compiler: str
    where: str
    name: str

    def made(self, text: str, arguments: tuple[Argument, ...]) -> CSource | PythonSource:
        """Return the function, given the text of its file. Raises TuningError."""
        if self.source.endswith(".py"):
            return PythonSource(text, self.entry, arguments)
        return CSource(text, self.entry, arguments, self.compiler)


@dataclass(frozen=True)
class CTexts:
    """The texts of a kernel's files: its source, includes, further sources, and its baseline's source."""

    source: str
    headers: tuple[Header, ...] = ()
    more: tuple[Header, ...] = ()
    rival: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every name and text, in order."""
        return (
            self.source,
            *(part for file in (*self.headers, *self.more) for part in file),
            *filter(None, [self.rival]),
        )


@dataclass(frozen=True)
class CTable:
    """A `[[kernel]]` table; `source` is the path as it is written, relative to the file.
    `more` are further ones beside it. One with `sized` is a family, and this is it at its first size; `at` gives it
    at another."""

    name: str
    source: str
    entry: str
    compiler: str
    arguments: tuple[Argument, ...]
    space: KernelSpace
    reference: Config
    where: str
    flops: float | None = None
    sized: SizesTable | None = None
    at: Callable[[Mapping[str, int]], CTable] | None = None
    more: tuple[str, ...] = ()
    rival: BaselineTable | None = None

    @property
    def family(self) -> str:
        """The name without the size."""
        return self.name.partition(" at ")[0]

    def kernel(self, texts: CTexts) -> CKernel:
        """The kernel, given the texts of its files. Raises SpecError."""
        files = (self.source, *self.more)
        source = _checked(
            self.where,
            lambda: CSource(texts.source, self.entry, self.arguments, self.compiler, texts.headers, texts.more, files),
        )
        rival = None
        if (table := self.rival) is not None:
            rival = _checked(table.where, lambda: table.made(texts.rival, self.arguments))
        return _checked(
            f"{self.where}: reference",
            lambda: CKernel(
                self.name, source, self.space, self.reference, self.flops, rival, "" if table is None else table.name
            ),
        )


@dataclass(frozen=True)
class Spec:
    """The content of a TOML file: values for `RunOptions`, named workloads, kernels."""

    run: Mapping[str, Any]
    workloads: tuple[WorkloadSpec, ...]
    kernels: tuple[CTable, ...]
    families: tuple[FamilyTable, ...] = ()


def parse_spec(text: str, file: str) -> Spec:
    """Read TOML text; `file` is its name in errors.
    Raises SpecError naming the file, the table and the field."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{file} is not TOML: {error}") from None
    _known(data, _FILE_KEYS, file)
    run = _get(data, "run", dict, file, {})
    words = _get(data, "workloads", list, file, [])
    tables = _get(data, "kernel", list, file, [])
    families = _get(data, "family", list, file, [])
    if not words and not tables and not families:
        raise SpecError(
            f"{file} has nothing to tune", hint='workloads = ["matmul:512,512,512:float32"], or a [[kernel]] table'
        )
    kernels = tuple(_kernel(table, f"{file}: [[kernel]] {at}") for at, table in enumerate(tables, 1))
    names = [k.family for k in kernels]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"{file}: two kernels are called {doubles[0]}", hint="give each a name of its own")
    workloads = tuple(named_workload(word, f"{file}: workloads[{at}]") for at, word in enumerate(words))
    found = tuple(family_table(table, f"{file}: [[family]] {at}") for at, table in enumerate(families, 1))
    return Spec(run_values(run, f"{file}: [run]"), workloads, kernels, found)


def family_table(table: object, where: str) -> FamilyTable:
    """The family of named workloads that a table describes. Raises SpecError."""
    if not isinstance(table, dict):
        raise SpecError(f"{where} is a table", hint='workload = "dense:M,3072,768" and shapes = ["M=1,16"]')
    _known(table, _FAMILY_KEYS, where)
    spec = _checked(where, lambda: FamilySpec.parse(_get(table, "workload", str, where)))
    sized = _sizes(table, where)
    _checked(where, lambda: spec.check(sized.sizes))
    return FamilyTable(spec, sized, where)


def _sizes(table: Mapping[str, Any], where: str) -> SizesTable:
    shapes = _get(table, "shapes", list, where)
    if not all(isinstance(text, str) for text in shapes):
        raise SpecError(f"{where}: shapes are texts", hint='shapes = ["M=1,16,128"]')
    sizes = _checked(f"{where}: shapes", lambda: parse_shapes(shapes))
    portfolio = _get(table, "portfolio", int, where, PORTFOLIO)
    if portfolio < 1:
        raise SpecError(f"{where}: a portfolio has at least 1 config, not {portfolio}")
    return SizesTable(sizes, _get(table, "traffic", str, where, None) if "traffic" in table else None, portfolio)


def run_values(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values for `RunOptions` that a file gives; `where` is their place in errors. Raises SpecError."""
    _known(table, tuple(_RUN_TYPES), where)
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name == "builders" and isinstance(value, str):  # a cluster's address
            found[name] = value
        else:
            found[name] = _get(table, name, _RUN_TYPES[name], where)
    # RunOptions' own checks; a limit of its own keeps them from asking for one
    _checked(where, lambda: RunOptions(**{"total_trials": 1, **found}))
    return found


def named_workload(word: object, where: str) -> WorkloadSpec:
    """The workload that a file names. Raises SpecError."""
    if not isinstance(word, str):
        raise SpecError(f"{where} is text, not {word!r}", hint='for example "matmul:512,512,512:float32"')
    return _checked(where, lambda: WorkloadSpec.parse(word))


def _kernel(table: object, where: str) -> CTable:
    if not isinstance(table, dict):
        raise SpecError(f"{where} is a table", hint="begin it with [[kernel]]")
    name = _get(table, "name", str, where)
    where = f"{where} ({name})"
    _known(table, _KERNEL_KEYS, where)
    if "shapes" in table:
        sized = _sizes(table, where)
        plain = {key: value for key, value in table.items() if key not in _SIZED_KEYS}
        tables = [_kernel_at(plain, dict(zip(sized.sizes.symbols, size)), where) for size in sized.sizes.sizes]
        return replace(tables[0], sized=sized, at=lambda sizes: _kernel_at(plain, sizes, where))
    if extra := [key for key in _SIZED_KEYS if key in table]:
        raise SpecError(f"{where}: {extra[0]} goes with shapes", hint='shapes = ["N=1024,4096"]')
    return _kernel_table(table, name, where)


def _kernel_at(table: Mapping[str, Any], sizes: Mapping[str, int], where: str) -> CTable:
    """The kernel with these values of its sizes: in shapes and `flops`, and as macros of their names."""
    here = ", ".join(f"{symbol}={extent}" for symbol, extent in sizes.items())
    where = f"{where} at {here}"
    space = _get(table, "space", dict, where)
    if taken := [symbol for symbol in sizes if symbol in space]:
        raise SpecError(f"{where}: {taken[0]} is both a size and a parameter", hint="give one of them another name")
    arguments = []
    for at, argument in enumerate(_get(table, "args", list, where)):
        shape = argument.get("shape") if isinstance(argument, dict) else None
        if isinstance(shape, list):
            place = f"{where}: args[{at}]: shape"
            argument = {**argument, "shape": [_extent(extent, sizes, place) for extent in shape]}
        arguments.append(argument)
    made = {
        **table,
        "name": f"{_get(table, 'name', str, where)} at {here}",
        "args": arguments,
        "space": {**space, **{symbol: [extent] for symbol, extent in sizes.items()}},
        "reference": {**_get(table, "reference", dict, where), **sizes},
    }
    if isinstance(flops := table.get("flops"), str):
        made["flops"] = _with_sizes(flops, sizes)
    return _kernel_table(made, made["name"], where)


def _extent(extent: object, sizes: Mapping[str, int], where: str) -> object:
    if not isinstance(extent, str):
        return extent
    return _checked(where, lambda: number(_with_sizes(extent, sizes)))


def _with_sizes(text: str, sizes: Mapping[str, int]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda name: str(sizes.get(name[0], name[0])), text)


def _kernel_table(table: Mapping[str, Any], name: str, where: str) -> CTable:
    arguments = tuple(
        _argument(argument, f"{where}: args[{at}]") for at, argument in enumerate(_get(table, "args", list, where))
    )
    parameters = _get(table, "space", dict, where)
    constraints = _get(table, "constraints", list, where, [])
    for at, constraint in enumerate(constraints):
        if not isinstance(constraint, str):
            raise SpecError(f"{where}: constraints[{at}] is text, not {constraint!r}", hint='"TILE * UNROLL <= 64"')
    for parameter in parameters:
        for value in _get(parameters, parameter, list, f"{where}: space"):
            if not isinstance(value, int | float | str):
                raise SpecError(f"{where}: space.{parameter} has the value {value!r}", hint="numbers, text or booleans")
    sources = _sources(table, where)
    return CTable(
        name=name,
        source=sources[0],
        more=sources[1:],
        rival=_rival(table["baseline"], f"{where}: [kernel.baseline]") if "baseline" in table else None,
        entry=_get(table, "entry", str, where),
        compiler=_get(table, "compiler", str, where, CSource.compiler),
        arguments=arguments,
        space=_checked(f"{where}: space", lambda: KernelSpace(parameters, tuple(constraints))),
        reference=_get(table, "reference", dict, where),
        where=where,
        flops=_operations(table["flops"], where) if "flops" in table else None,
    )


def _sources(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The source, or several: the first has the entry, and the others lie beside it."""
    if not isinstance(table.get("source"), list):
        return (_get(table, "source", str, where),)
    sources = tuple(table["source"])
    if not 0 < len(sources) <= _MOST_SOURCES or not all(isinstance(name, str) and name for name in sources):
        raise SpecError(f"{where}: source is a file, or a list of files", hint='source = ["kernel.c", "helpers.c"]')
    folder = sources[0].rpartition("/")[0]
    if any(name.rpartition("/")[0] != folder for name in sources) or len(set(sources)) < len(sources):
        raise SpecError(f"{where}: sources are different files of one folder")
    return sources


def _rival(table: object, where: str) -> BaselineTable:
    if not isinstance(table, dict):
        raise SpecError(f"{where} is a table", hint='source = "plain.c" and entry = "plain"')
    _known(table, _BASELINE_KEYS, where)
    entry = _get(table, "entry", str, where)
    name = _get(table, "name", str, where, entry)
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise SpecError(f"{where}: {name!r} is no name", hint='name = "OpenBLAS"')
    source = _get(table, "source", str, where)
    if source.endswith(".py") and "compiler" in table:
        raise SpecError(f"{where}: {source} is Python, which has no compiler")
    return BaselineTable(
        source=source,
        entry=entry,
        compiler=_get(table, "compiler", str, where, CSource.compiler),
        where=where,
        name=name,
    )


def _operations(given: object, where: str) -> float:
    """Operations of a call: a number, or arithmetic in text."""
    found = _checked(f"{where}: flops", lambda: number(given)) if isinstance(given, str) else given
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < float("inf"):
        raise SpecError(f"{where}: flops is a number above 0, not {given!r}", hint='flops = "2 * 384**3"')
    return float(found)


def _argument(table: object, where: str) -> Argument:
    if not isinstance(table, dict):
        raise SpecError(f"{where} is a table", hint='{ name = "x", dtype = "float32", shape = [1024] }')
    _known(table, _ARGUMENT_KEYS, where)
    name, dtype = _get(table, "name", str, where), _get(table, "dtype", str, where)
    shape, output = _get(table, "shape", list, where), _get(table, "output", bool, where, False)
    return _checked(where, lambda: Argument(name, dtype, tuple(shape), output))


def _known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise SpecError(f"{where} has no {unknown[0]!r}", hint=f"there are {', '.join(known)}")


def _get(table: Mapping[str, Any], key: str, kind: type, where: str, default: Any = _REQUIRED) -> Any:
    """The value of a key, of that type. Raises SpecError."""
    value = table.get(key, default)
    if value is _REQUIRED:
        raise SpecError(f"{where} lacks {key!r}", hint=f"{key} is {_NAMES[kind]}")
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise SpecError(f"{where}: {key} is {_NAMES[kind]}, not {value!r}")
    return value


def _checked(where: str, make: Callable[[], T]) -> T:
    """Return what `make` gives; its error with the place in front."""
    try:
        return make()
    except TunefarmError as error:
        raise SpecError(f"{where}: {error.message}", hint=error.hint) from None
