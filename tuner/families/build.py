"""A tuned family as one artifact: a kernel for each measured size, general ones for the others, and the rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.dispatch import DispatchedEntry, dispatch_artifact
from compiler.errors import TunefarmError
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.size_rule import Size, SizeRule, SizeTest, Tree, leaves_of
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.families.configs import realised
from tuner.families.family import FamilySpec
from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL
from tuner.families.sizes import FamilyError
from tuner.space.generate import generate
from tuner.untuned import runnable


@dataclass(frozen=True)
class BuiltFamily:
    """`general` has the members of the portfolio whose config has a kernel for any size; sizes that were not measured
    and lead to another member get the kernel `instead`: a member's, or GENERAL for the function as it is written."""

    artifact: Artifact
    general: frozenset[int]
    instead: int


def function_name(name: str) -> str:
    """A C function's name made of a family's: dense_M_3072_768_float32."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)


def build_family(
    record: FamilyRecord, name: str = "", compile_: Callable[..., Artifact] = compile_artifact
) -> BuiltFamily:
    """Compile all kernels of a family of named workloads. Raises FamilyError for another family, CodegenError."""
    spec, target = spec_of(record), Target(record.target)
    symbol = name or function_name(record.name)
    func = spec.general()
    kernels: list[Artifact] = []
    known: dict[Size, int] = {}
    for at, size in enumerate(record.sizes.sizes):
        trace = record.traces[at]
        if trace is not None:
            known[size] = len(kernels)
            kernels.append(compile_(at_size(record, size, trace), target, name=f"{symbol}_{'_'.join(map(str, size))}"))
    places: dict[int, int] = {}
    for member in sorted({leaf for leaf in leaves_of(record.rule.tree) if leaf != GENERAL}):
        made = _general(func, record, member)
        if made is not None:
            places[member] = len(kernels)
            kernels.append(compile_(made, target, name=f"{symbol}_general_{member}"))
    instead = next(iter(places), GENERAL)
    if not places:
        places[GENERAL] = len(kernels)
        kernels.append(compile_(runnable(func, target), target, name=f"{symbol}_general"))
    general = frozenset(places) - {GENERAL}
    tree = _with_places(record.rule.tree, places, places[instead])
    [own] = kernels[-1].entries
    entry = DispatchedEntry(symbol, own.args, own.outputs, own.implicit, own.flops)
    rule = SizeRule(record.rule.symbols, known, tree)
    return BuiltFamily(dispatch_artifact(entry, rule, kernels, target), general, instead)


def build_untuned(spec: FamilySpec, target: Target, name: str = "") -> Artifact:
    """The function for any size as it is written. Raises CodegenError."""
    return compile_artifact(runnable(spec.general(), target), target, name=name or function_name(str(spec)))


def spec_of(record: FamilyRecord) -> FamilySpec:
    """The family's spec. Raises FamilyError for a kernel of somebody's own."""
    if "op" not in record.what:
        raise FamilyError(f"{record.name} is a kernel of a file: it is built where that is")
    return FamilySpec.from_json(record.what)


def at_size(record: FamilyRecord, size: Size, trace: str | None = None) -> n.PrimFunc | None:
    """The function at one size with the config that the rule picks there; None where that has none.

    A measured size has its `trace`; for another the config is made to fit.
    """
    func = spec_of(record).at(record.sizes, size).prim_func()
    if trace is not None:
        return apply_trace(func, Trace.from_json(trace)).func
    pick = record.rule.pick(size)
    if pick == GENERAL:
        return None
    found = realised(record.configs[pick], generate(func, Target(record.target)))
    return None if found is None else apply_trace(func, Trace.from_json(found.trace_json)).func


def _general(func: n.PrimFunc, record: FamilyRecord, member: int) -> n.PrimFunc | None:
    """The function for any size with a member's config: the steps it has at the largest size that it was picked at
    and that they are possible for."""
    picked = [at for at, size in enumerate(record.sizes.sizes) if record.rule.known[size] == member]
    for at in sorted(picked, key=lambda at: record.sizes.sizes[at], reverse=True):
        trace = record.traces[at]
        try:
            return apply_trace(func, Trace.from_json(trace or "")).func
        except TunefarmError:
            continue
    return None


def _with_places(tree: Tree, places: dict[int, int], instead: int) -> Tree:
    """The tree with kernels' places for members."""
    if not isinstance(tree, SizeTest):
        return places.get(tree, instead)
    low, high = _with_places(tree.low, places, instead), _with_places(tree.high, places, instead)
    return low if low == high else SizeTest(tree.value, tree.limit, low, high)
