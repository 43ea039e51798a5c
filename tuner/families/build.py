"""A tuned family as one artifact.

A kernel for each measured size, general ones for the others, and the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any, Protocol

import numpy as np

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.dispatch import DispatchedEntry, dispatch_artifact
from compiler.driver.kernel_schedules import scheduled
from compiler.driver.sized_kernels import SizedKernels
from compiler.errors import TunefarmError
from compiler.extents import parse_extent
from compiler.ir.base import GlobalVar
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.size_rule import Size, SizeRule, SizeTest, Tree, leaves_of
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from tuner.families.configs import realised
from tuner.families.family import AnySpec, family_key, spec_from_json
from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL
from tuner.families.sizes import FamilyError, SizeList
from tuner.search.drafted import drafted_candidate
from tuner.space.analysis import blocks_of
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.untuned import runnable

_USUAL = 64
"""The size that a schedule for any size is drafted at where nothing else is known."""
_SMALL = 8
"""The size that one for small sizes is drafted at: what pays for many rows may not for few."""
_FAR_SLOWER = 1.5
"""A config whose kernel for any size is slower by this factor than the config picked is no stand-in for it."""


@dataclass(frozen=True)
class BuiltFamily:
    """A family as it is built: the kernels of its portfolio, and the rule that picks one.
    `general` has members of the portfolio whose kernel for any size is about as fast as one made for it. None of a
    convolution is. A size that was not measured may lead to another member. It gets the kernel of a member that is
    about as fast there, or a drafted one."""

    artifact: Artifact
    general: frozenset[int]


def function_name(name: str) -> str:
    """A C function's name made of a family's: dense_M_3072_768_float32."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)


class FamilyMaker(Protocol):
    """The maker of one family's kernels.
    `symbols` are the names of its sizes, `key` is its key in records."""

    @property
    def name(self) -> str: ...

    @property
    def symbols(self) -> tuple[str, ...]: ...

    @property
    def key(self) -> str: ...

    def built(self, record: FamilyRecord, name: str = "", more: Collection[Size] = ()) -> BuiltFamily:
        """One artifact of all kernels of a record.
        `more`: sizes, in the record's order, that get one of their own, too."""
        ...

    def untuned(self, target: Target, name: str = "", more: Collection[Size] = ()) -> Artifact:
        """Make one artifact of a family that nobody has tuned.
        `more`: as in `built`, in the order of `symbols`."""
        ...

    def at(self, record: FamilyRecord | None, size: Size, target: Target, name: str) -> Artifact:
        """The kernel of one size, with the config that the record's rule picks.
        `size` is in the record's order."""
        ...

    def plain(self, sizes: Mapping[str, int], target: Target) -> Artifact:
        """The kernel of one size as it is written, with which all others have to agree."""
        ...

    def examples(self, record: FamilyRecord | None) -> SizeList:
        """Sizes whose correct results show that the whole artifact is right."""
        ...


@dataclass(frozen=True)
class FunctionMaker:
    """Makes kernels of a named workload, or of a function of a graph."""

    spec: AnySpec

    @property
    def name(self) -> str:
        return str(self.spec)

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.spec.symbols

    @property
    def key(self) -> str:
        return self.spec.key

    def built(self, record: FamilyRecord, name: str = "", more: Collection[Size] = ()) -> BuiltFamily:
        return build_family(record, name, more=more)

    def untuned(self, target: Target, name: str = "", more: Collection[Size] = ()) -> Artifact:
        return build_untuned(self.spec, target, name, more)

    def at(self, record: FamilyRecord | None, size: Size, target: Target, name: str) -> Artifact:
        func = None if record is None else at_size(record, size)
        if func is None:
            symbols = self.symbols if record is None else record.sizes.symbols
            func = _drafted_at(self.spec if record is None else spec_of(record), symbols, size, target)
        return compile_artifact(func, target, name=name, keep=())

    def plain(self, sizes: Mapping[str, int], target: Target) -> Artifact:
        size = tuple(sizes.values())
        return compile_artifact(
            runnable(self.spec.func_at(SizeList(tuple(sizes), (size,)), size), target), target, keep=()
        )

    def examples(self, record: FamilyRecord | None) -> SizeList:
        """The measured sizes and one beyond."""
        if record is None:
            return SizeList(self.symbols, ((32,) * len(self.symbols),))
        beyond = tuple(extent + 1 for extent in max(record.sizes.sizes))
        return SizeList(record.sizes.symbols, (*record.sizes.sizes, beyond))


def symbols_of(maker: FamilyMaker, record: FamilyRecord | None) -> tuple[str, ...]:
    """The names of a family's sizes in the order in which its function has them, as a record calls them."""
    if record is None or not isinstance(maker, FunctionMaker):
        return maker.symbols
    return spec_of(record).symbols


def record_for(maker: FamilyMaker, data: Mapping[str, Any]) -> FamilyRecord:
    """The record of a maker's family as it was sent. Raises FamilyError for one of another function."""
    record = FamilyRecord.from_json(data)
    if family_key(record.what) != maker.key:
        raise FamilyError(
            f"what was sent for {maker.name} is the record of another function, {record.name}",
            hint="it was kept under a wrong key: tune the family again",
        )
    return record


def recorded_size(maker: FamilyMaker, record: FamilyRecord, size: Size) -> Size:
    """Return a size, given in the order of the maker's symbols, as the record has it.
    Its names and their order may be others."""
    symbols = symbols_of(maker, record)
    return tuple(size[symbols.index(symbol)] for symbol in record.sizes.symbols)


def fixed(artifact: Artifact, sizes: Mapping[str, int]) -> Artifact:
    """Return the artifact of a family as one of constant sizes.
    It is for users that fill arrays themselves, such as checks on devices."""
    [entry] = artifact.entries
    args = tuple(
        arg if arg.shape is None else replace(arg, shape=tuple(_number(extent, sizes) for extent in arg.shape))
        for arg in entry.args
    )
    implicit = tuple(replace(arg, value=str(_number(arg.value, sizes))) for arg in entry.implicit)
    made = replace(entry, args=args, implicit=implicit, flops="")
    return Artifact(artifact.target, artifact.cpu_features, (made,), artifact.blobs, artifact.meta)


def _number(extent: int | str, sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else parse_extent(extent).value(sizes)


def build_family(record: FamilyRecord, name: str = "", more: Collection[Size] = ()) -> BuiltFamily:
    """Compile all kernels of a function at many sizes: the measured ones and `more`.

    Raises FamilyError for a kernel of a file, CodegenError.
    """
    target = Target(record.target)
    symbol = name or function_name(record.name)
    found = kernels_of(record, more)
    kernels = [compile_artifact(func, target, name=f"{symbol}_{label}") for label, func in found.funcs.items()]
    [own] = kernels[-1].entries
    entry = DispatchedEntry(symbol, own.args, own.outputs, own.implicit, own.flops)
    general = frozenset[int]() if _slides(spec_of(record)) else found.general
    return BuiltFamily(dispatch_artifact(entry, found.rule, kernels, target), general)


@dataclass(frozen=True)
class FamilyKernels:
    """The scheduled functions of a record, by their keys.
    Measured sizes come first, then those for any size. `rule` picks by place. `general` has the members of the
    portfolio whose config has a kernel for any size."""

    funcs: Mapping[str, n.PrimFunc]
    rule: SizeRule
    general: frozenset[int]


def kernels_of(record: FamilyRecord, more: Collection[Size] = ()) -> FamilyKernels:
    """Schedule all kernels of a record, and those of `more` sizes with the configs that its rule picks.

    Raises FamilyError for a kernel of a file.
    """
    spec = spec_of(record)
    func = spec.general()
    funcs: dict[str, n.PrimFunc] = {}
    known: dict[Size, int] = {}
    for size, trace in zip(record.sizes.sizes, record.traces, strict=True):
        made = None if trace is None else at_size(record, size, trace)
        if made is not None:
            known[size] = len(funcs)
            funcs[_label(size)] = made
    for size in more:
        if size not in known:
            known[size] = len(funcs)
            own = at_size(record, size) or _drafted_at(spec, record.sizes.symbols, size, Target(record.target))
            funcs[_label(size)] = own
    places: dict[int, int] = {}
    for member in sorted({leaf for leaf in leaves_of(record.rule.tree) if leaf != GENERAL}):
        general = _general(func, record, member)
        if general is not None:
            places[member] = len(funcs)
            funcs[f"general_{member}"] = general
    general_members, tree = frozenset(places), record.rule.tree
    lost = [leaf for leaf in leaves_of(tree) if leaf not in places]
    others = {leaf: _stand_in(record, leaf, places) for leaf in lost}
    drafted: Tree = GENERAL
    if GENERAL in others.values():
        largest = SizeList(record.sizes.symbols, (max(record.sizes.sizes),))
        drafts = drafted_kernels(spec, Target(record.target), largest)
        drafted = _moved(drafts.tree, {at: len(funcs) + at for at in range(len(drafts.funcs))})
        funcs |= {f"drafted_{at}": draft for at, draft in enumerate(drafts.funcs)}
    trees = {leaf: drafted if other == GENERAL else places[other] for leaf, other in others.items()}
    rule = SizeRule(record.rule.symbols, known, _moved(tree, {**places, **trees}))
    return FamilyKernels(funcs, rule, general_members)


def _label(size: Size) -> str:
    return "_".join(map(str, size))


def _drafted_at(spec: AnySpec, symbols: tuple[str, ...], size: Size, target: Target) -> n.PrimFunc:
    """The function of one size with a schedule that nobody measured."""
    plain = GlobalVar("plain")
    return scheduled({plain: spec.func_at(SizeList(symbols, (size,)), size)}, target)[plain]


def _stand_in(record: FamilyRecord, member: int, able: Mapping[int, int]) -> int:
    """The member of `able` that is fastest where `member` is picked.
    GENERAL where each is far slower or unknown."""
    at = [at for at, size in enumerate(record.sizes.sizes) if member != GENERAL and record.rule.known[size] == member]
    found: dict[int, float] = {}
    for other in able:
        times = [(record.seconds[other][size], record.seconds[member][size]) for size in at]
        ratios = [theirs / own for theirs, own in times if theirs is not None and own is not None]
        if at and len(ratios) == len(at):
            found[other] = geometric_mean(ratios)
    best = min(found, key=lambda other: found[other], default=GENERAL)
    return best if best != GENERAL and found[best] <= _FAR_SLOWER else GENERAL


@dataclass(frozen=True)
class DraftedKernels:
    """Functions for any size with schedules that nobody measured, and a tree that picks one by its place."""

    funcs: tuple[n.PrimFunc, ...]
    tree: Tree


def drafted_kernels(spec: AnySpec, target: Target, largest: SizeList | None = None) -> DraftedKernels:
    """The function drafted at a usual size, or the largest one known.

    If it is called with one size alone, it is drafted at a small one, a usual one, and the largest. A function that
    slides windows along rows of any length is drafted at a small size alone. Its tiles are one vector wide. Wider
    ones take several times as long where they are not full, and they are full for few lengths.
    """
    symbols = spec.symbols
    if _slides(spec):
        return DraftedKernels((drafted_general(spec, target, SizeList(symbols, ((_SMALL,) * len(symbols),))),), 0)
    if len(symbols) > 1:
        like = largest or SizeList(symbols, ((_USUAL,) * len(symbols),))
        return DraftedKernels((drafted_general(spec, target, like),), 0)
    known = () if largest is None else largest.sizes[0]
    extents = [_SMALL, _USUAL, *(extent for extent in known if extent > 4 * _USUAL)]
    made: list[tuple[int, n.PrimFunc]] = []  # with the extent that it was drafted at
    for extent in extents:
        draft = drafted_general(spec, target, SizeList(symbols, ((extent,),)))
        if made and made[-1][1].script() == draft.script():
            made.pop()
        made.append((extent, draft))
    tree: Tree = len(made) - 1
    for at in reversed(range(len(made) - 1)):
        tree = SizeTest(symbols[0], math.isqrt(made[at][0] * made[at + 1][0]), at, tree)
    return DraftedKernels(tuple(draft for _, draft in made), tree)


def _slides(spec: AnySpec) -> bool:
    """Whether the function sums windows that move along rows of varying length, as convolutions do."""
    general = spec.general()
    shape = general.buffer_map[general.params[-1]].shape
    if not shape or as_int(shape[-1]) is not None:
        return False
    usual = SizeList(spec.symbols, ((_USUAL,) * len(spec.symbols),))
    try:
        blocks = blocks_of(spec.func_at(usual, usual.sizes[0]))
    except TunefarmError:  # they do not fit at such a size
        return False
    inputs = [access for block in blocks if block.reduced for access in block.inputs]
    return any(len(axes) > 1 for access in inputs for axes in access.axes_by_dim)


def drafted_general(spec: AnySpec, target: Target, like: SizeList) -> n.PrimFunc:
    """Return the function for any size, with an unmeasured schedule.

    It is the one with the best draft at the first size of `like`. The schedule must fit any size; the function is as
    written where none does.
    """
    func, size = spec.general(), like.sizes[0]
    with suppress(TunefarmError):
        there = spec.func_at(like, size)
        able = [sketch for sketch in generate(there, target) if _fits_any_size(sketch, func)]
        draft = drafted_candidate(there, target, able)
        if draft is not None:
            return apply_trace(func, Trace.from_json(draft.trace_json)).func
    return runnable(func, target)


def _fits_any_size(sketch: Sketch, func: n.PrimFunc) -> bool:
    point = sketch.random(np.random.default_rng(0))
    if point is None:
        return False
    try:
        apply_trace(func, Trace.from_json(sketch.trace_json(point)))
    except TunefarmError:
        return False
    return True


def sized_kernels(record: FamilyRecord) -> SizedKernels:
    """The kernels of a record as a graph's build takes them. Raises FamilyError for a kernel of a file."""
    found, symbols = kernels_of(record), spec_of(record).symbols
    order = tuple(symbols.index(symbol) for symbol in found.rule.symbols)
    return SizedKernels(tuple(found.funcs.values()), found.rule, order)


def build_untuned(spec: AnySpec, target: Target, name: str = "", more: Collection[Size] = ()) -> Artifact:
    """The function for any size with drafted schedules, and one for each of `more` sizes.
    Raises CodegenError."""
    symbol = name or function_name(str(spec))
    drafts = drafted_kernels(spec, target)
    sizes = tuple(dict.fromkeys(more))
    if len(drafts.funcs) == 1 and not sizes:
        return compile_artifact(drafts.funcs[0], target, name=symbol, keep=())
    funcs = {str(at): func for at, func in enumerate(drafts.funcs)}
    known = {size: len(funcs) + at for at, size in enumerate(sizes)}
    funcs |= {f"at_{_label(size)}": _drafted_at(spec, spec.symbols, size, target) for size in sizes}
    kernels = [compile_artifact(func, target, name=f"{symbol}_{label}", keep=()) for label, func in funcs.items()]
    [own] = kernels[0].entries
    entry = DispatchedEntry(symbol, own.args, own.outputs, own.implicit, own.flops)
    return dispatch_artifact(entry, SizeRule(spec.symbols, known, drafts.tree), kernels, target)


def spec_of(record: FamilyRecord) -> AnySpec:
    """The family's function. Raises FamilyError for a kernel of somebody's own."""
    return spec_from_json(record.what, record.name)


def at_size(record: FamilyRecord, size: Size, trace: str | None = None) -> n.PrimFunc | None:
    """The function at one size with the config that the rule picks there; None where that has none.

    A measured size has its `trace`; for another the config is made to fit.
    """
    func = spec_of(record).func_at(record.sizes, size)
    if trace is not None:
        return apply_trace(func, Trace.from_json(trace)).func
    pick = record.rule.pick(size)
    if pick == GENERAL:
        return None
    found = realised(record.configs[pick], generate(func, Target(record.target)))
    return None if found is None else apply_trace(func, Trace.from_json(found.trace_json)).func


def _general(func: n.PrimFunc, record: FamilyRecord, member: int) -> n.PrimFunc | None:
    """The function for any size with a member's config.
    It has the steps for the largest size at which the config was picked and the steps are possible."""
    picked = [at for at, size in enumerate(record.sizes.sizes) if record.rule.known[size] == member]
    for at in sorted(picked, key=lambda at: record.sizes.sizes[at], reverse=True):
        trace = record.traces[at]
        try:
            return apply_trace(func, Trace.from_json(trace or "")).func
        except TunefarmError:
            continue
    return None


def _moved(tree: Tree, places: Mapping[int, Tree]) -> Tree:
    """The tree with other picks, or whole trees, for its picks."""
    if not isinstance(tree, SizeTest):
        return places[tree]
    low, high = _moved(tree.low, places), _moved(tree.high, places)
    return low if low == high else SizeTest(tree.value, tree.limit, low, high)
