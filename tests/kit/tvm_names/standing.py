"""The standing of each name of Apache TVM here."""

from __future__ import annotations

import importlib
import inspect
import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from compiler.tir.intrin.foreign import UNBUILT
from tests.kit.tvm_names.merge import DATA
from tunefarm.compatibility import why_not
from tunefarm.submodules import RefusedName

NOTES = {
    "runtime.Device": "`device_type` is the type's name, not a number",
    "te.compute": (
        "a function that takes fewer arguments than there are dimensions is refused: TVM drops the other dimensions"
    ),
    "auto_scheduler.feature.features_from_primfunc": (
        "the numbers of a function with its blocks; of one that is lowered already TVM loses strides and reuse, and "
        "those are told here, too"
    ),
    "meta_schedule.cost_model.XGBModel": (
        "boosted trees of this package, which need no xgboost: of `config`, `eta` and `max_depth` (at most 6) count; a "
        "candidate's rows are summed up before the trees, not after; `save` writes an archive of numpy; "
        '`CostModel.create("mlp")` makes it, too'
    ),
    "meta_schedule.feature_extractor.PerStoreFeature": (
        "the numbers of TVM 0.17, but for lines of a region that hangs over the buffer's edge, and for "
        "`extract_workload`, where TVM gives zeros"
    ),
    "runtime.NDArray": "elements may be read by index: `array[0]`, `len(array)`, a loop",
    "tir.Block": "a block uses its own axes only: one that reads the loops around it is refused (`block-isolation`)",
    "tir.Buffer": (
        "`scope` is a text that may be called; a buffer has one address, so `axis_separators` and a `buffer_type` are "
        "refused"
    ),
    "tir.PrimExpr": (
        "a Python number takes the dtype of the expression beside it: TVM widens float16 beside 1.0, and int8 beside 1"
    ),
    "tir.transform.UnrollLoop": "it marks the loops; code generation writes their bodies out",
    "tir.transform.LowerInitBlock": "the init gets loops of its own before those of the reduction, where it can",
    "tir.transform.ConvertBlocksToOpaque": "a block that allocates nothing becomes its body at once",
    "tir.transform.PlanAndUpdateBufferAllocationLocation": (
        "the block that it makes is called `alloc_…` and lists no accesses"
    ),
    "tir.transform.VectorizeLoop": "conditions become masks of lanes; TVM makes scalar loops of them",
    "tir.transform.Simplify": "sums and products of floats stay: x * 0.0 is not 0 for an infinite x",
    "target.Target": (
        "targets of equal options are equal; the text and `export()` have the options that were given, as records name "
        "targets by them (`attrs`, `keys`, `arch`, `mcpu` and `mtriple` have the defaults, too)"
    ),
    "tir.Schedule": (
        "functions without blocks, which cannot be scheduled any more, are refused at once; these steps make another "
        "module that computes the same: `blockize` keeps the axes of the block inside, `tensorize` puts buffers in "
        "place of views, `loop_partition` makes no blocks around the parts, `cache_index` says that the block reads "
        "the indices, `cache_inplace` copies outside the loops, `rolling_buffer` rolls along one axis, "
        "`transform_layout` with padding tests the old index"
    ),
}
"""Differences that no signature shows."""

IGNORED = {"span", "loc", "ip"}
"""Parameters that no program depends on: where in a source text a node comes from."""


@dataclass(frozen=True)
class Standing:
    """A row of the table: `note` says how the name differs, or why it is refused."""

    name: str
    state: Literal["works", "differs", "refuses", "missing"]
    note: str = ""


@cache
def field() -> dict[str, Any]:
    """The data file: the versions, their modules and names."""
    data: dict[str, Any] = json.loads(DATA.read_text())
    return data


def standings() -> list[Standing]:
    return [standing(name, entry) for name, entry in field()["names"].items()]


def missing_modules() -> list[str]:
    """Modules of the older version that cannot be imported here and that no reason covers."""
    return [path for path in field()["modules"].split() if _module(path) is None and why_not(path) is None]


def standing(name: str, entry: dict[str, Any]) -> Standing:
    space, _, last = name.rpartition(".")
    refused = why_not(name)
    module = _module(space)
    try:
        found = getattr(module, last)
    except AttributeError:
        return Standing(name, "refuses", refused) if refused else Standing(name, "missing")
    if isinstance(found, RefusedName):  # a program of another test has imported it
        return Standing(name, "refuses", refused or "")
    notes = [*filter(None, [NOTES.get(name) or _unbuilt(name)]), *_less(found, entry["params"], entry.get("members"))]
    return Standing(name, "differs", "; ".join(notes)) if notes else Standing(name, "works")


def _less(found: Any, params: str | None, members: dict[str, str | None] | None) -> list[str]:
    """List what the name has in Apache TVM and lacks here."""
    notes = []
    if members is None or inspect.isclass(found):
        notes += _lacks(found, params, "")
    absent = [name for name in members or {} if not hasattr(found, name) and not _is_field(found, name)]
    if absent:
        notes.append(f"has no {_listed(absent)}")
    for name, wanted in (members or {}).items():
        notes += _lacks(getattr(found, name, None), wanted, f"`{name}` ")
    return notes


def _is_field(found: Any, name: str) -> bool:
    """Whether instances have an attribute that the class itself does not show."""
    bases = getattr(found, "__mro__", ())
    return any(name in {*getattr(base, "__annotations__", ()), *getattr(base, "__slots__", ())} for base in bases)


def _lacks(found: Any, params: str | None, whose: str) -> list[str]:
    """Which parameters are not taken, or taken by position only."""
    if found is None or params is None or not callable(found):
        return []
    try:
        ours = [p for p in inspect.signature(found).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return []
    kinds = {p.kind for p in ours}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return []
    names = {p.name for p in ours if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    places = len(params) if inspect.Parameter.VAR_POSITIONAL in kinds else 0
    places += sum(p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in ours)
    wanted = [p for p in params.split() if p not in IGNORED]
    named = [(at, p) for at, p in enumerate(wanted) if not p.startswith("*") and p not in names]
    notes = []
    if without := [p for at, p in named if at >= places]:
        notes.append(f"{whose}takes no {_listed(without)}")
    if placed := [p for at, p in named if at < places]:
        notes.append(f"{whose}takes {_listed(placed)} by position only")
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


@cache
def _module(path: str) -> Any:
    try:
        return importlib.import_module(f"tunefarm.{path}")
    except ModuleNotFoundError as error:
        parent, _, last = path.rpartition(".")
        if not (error.name or "").startswith("tunefarm"):
            raise
        return getattr(_module(parent), last, None) if parent else None


def _unbuilt(name: str) -> str | None:
    """The note of an operator that texts and passes know, and code generation does not."""
    space, _, last = name.rpartition(".")
    known = not {last, f"tvm_{last}"}.isdisjoint(UNBUILT)
    return "it is read, printed and passed on; no backend makes code of it" if space in _OPERATORS and known else None


_OPERATORS = ("tir", "tir.op", "script.tir", "tirx", "tirx.op", "tirx.script")
