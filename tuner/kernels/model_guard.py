"""Compare a tuned model with the untuned one, and give back the kernels where tuning lost.

A kernel is tuned alone, and the machine may be busy meanwhile. So the fastest schedule in trials may be slower in
its model. `guard_model` runs both models in turns on one device and says which kernels should keep their untuned
schedules. Its caller takes the records of those out of use.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from compiler.driver.backend import backend_of
from compiler.driver.graph import build_graph, unscheduled
from compiler.driver.kernel_schedules import KernelSchedules, Question, asked, kernel_schedules
from compiler.errors import TunefarmError
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.devices.fleet import Fleet
from tuner.devices.model_runs import ModelTimes, RunsModels
from tuner.kernels.model import ModelKernel, kernels_in, parts_of_calls
from tuner.number_text import duration
from tuner.records.lookup.best import Verdict, compare, interval

ROUNDS = 5
_SAMPLES, _SAMPLE_MS = 3, 20
_WAIT_S = 30.0
_log = logging.getLogger("tuner")

ModelTimer = Callable[[Path], ModelTimes]
"""Runs a built model on a device."""


@dataclass(frozen=True)
class InTurns:
    """Runs of the untuned and of the tuned model, which took turns: one of each a round."""

    untuned: tuple[ModelTimes, ...]
    tuned: tuple[ModelTimes, ...]

    @property
    def untuned_s(self) -> float:
        """Seconds of an untuned run."""
        return median(map(_whole, self.untuned))

    @property
    def tuned_s(self) -> float:
        """Seconds of a tuned run."""
        return median(map(_whole, self.tuned))

    @property
    def is_faster(self) -> bool:
        """Whether the tuned model is the faster one, by the median of the rounds' ratios."""
        return median(_whole(b) / _whole(a) for a, b in zip(self.untuned, self.tuned, strict=True)) < 1

    def slower(self, clearly: bool) -> frozenset[str]:
        """The names of the kernels that take longer in the tuned model. `clearly`: by more than their scatter."""
        found = set()
        for name in frozenset.intersection(*(frozenset(run.kernels) for run in (*self.untuned, *self.tuned))):
            before, now = ([run.kernels[name] for run in runs] for runs in (self.untuned, self.tuned))
            if clearly:
                is_slower = compare(interval(before), interval(now)) is Verdict.SLOWER
            else:
                is_slower = median(now) > median(before)
            if is_slower:
                found.add(name)
        return frozenset(found)


def _whole(run: ModelTimes) -> float:
    return median(run.samples)


@dataclass(frozen=True)
class KeptSchedules:
    """The kernels that keep their tuned schedules, by key, and the last comparison of such a model.
    `last` is None where no comparison was needed after the first."""

    keys: frozenset[str]
    first: InTurns
    last: InTurns | None = None


def kept_kernels(
    changed: Set[str], keys_of: Mapping[str, Collection[str]], compared: Callable[[frozenset[str]], InTurns]
) -> KeptSchedules:
    """Choose of the `changed` kernels, by key, those that keep their tuned schedules.

    `compared` compares the model with the tuned schedules of some of them and the untuned model. `keys_of` are the
    keys of a kernel by its name in profiles. Kernels that became clearly slower are given back. If the whole model
    is no faster, so are all that became slower; if that does not help, all are.
    """
    everything = frozenset(changed)
    first = compared(everything)
    slower = first.slower(clearly=first.is_faster)
    kept = everything - {key for name in slower for key in keys_of.get(name, ())}
    if first.is_faster or not kept:
        return KeptSchedules(kept, first)
    if kept == everything:
        return KeptSchedules(frozenset(), first)
    last = compared(kept)
    return KeptSchedules(kept if last.is_faster else frozenset(), first, last)


@dataclass(frozen=True)
class GuardedModel:
    """The comparison's result, in seconds of a run.
    `untuned_s` is of the untuned model, `tuned_s` of the tuned one with all records. `kept_s` is of the one without
    those that were given back (None: it was not run)."""

    untuned_s: float
    tuned_s: float
    kept_s: float | None
    changed: int
    given_back: tuple[ModelKernel, ...]

    def to_json(self) -> dict[str, Any]:
        names = [kernel.name for kernel in self.given_back]
        return {
            "untuned_s": self.untuned_s, "tuned_s": self.tuned_s, "kept_s": self.kept_s, "changed": self.changed,
            "given_back": names,
        }  # fmt: skip

    def text(self) -> str:
        """The comparison in a sentence or two."""
        said = f"in turns, untuned {duration(self.untuned_s)}, tuned {duration(self.tuned_s)}"
        if not self.given_back:
            return said
        names = ", ".join(kernel.name for kernel in self.given_back[:5])
        more = f" and {len(self.given_back) - 5} more" if len(self.given_back) > 5 else ""
        if len(self.given_back) == self.changed:
            return f"{said}; every kernel keeps its untuned schedule"
        ending = "" if self.kept_s is None else f", then {duration(self.kept_s)}"
        return f"{said}; slower in the model, so they keep their untuned schedules: {names}{more}{ending}"


def guard_model(
    mod: IRModule | Function, target: Target, params: Mapping[str, Any] | None, find: Question, timer: ModelTimer
) -> GuardedModel | None:
    """Compare the model, built with the schedules that `find` knows, with the untuned one.

    None if both are the same. Raises what a build and `timer` raise.
    """
    module = unscheduled(mod, target, params)
    kernels = {kernel.key: kernel for kernel in kernels_in(module)}
    changed = frozenset(_changed(kernels, target, find))
    if not changed:
        return None
    with tempfile.TemporaryDirectory(prefix="tunefarm-guard-") as folder:
        build = _Builds(mod, target, params, find, Path(folder))
        untuned = build.with_tuned(frozenset())

        def compared(kept: frozenset[str]) -> InTurns:
            return in_turns(untuned, build.with_tuned(kept), timer)

        found = kept_kernels(changed, parts_of_calls(module), compared)
    back = tuple(kernel for key, kernel in kernels.items() if key in changed - found.keys)
    last = None if found.last is None else found.last.tuned_s
    return GuardedModel(found.first.untuned_s, found.first.tuned_s, last, len(changed), back)


def in_turns(untuned: Path, tuned: Path, timer: ModelTimer) -> InTurns:
    """Run two models in turns. Each begins every second round."""
    runs: dict[Path, list[ModelTimes]] = {untuned: [], tuned: []}
    for number in range(ROUNDS):
        for path in (untuned, tuned) if number % 2 == 0 else (tuned, untuned):
            runs[path].append(timer(path))
    return InTurns(tuple(runs[untuned]), tuple(runs[tuned]))


@contextmanager
def model_timer(fleet: Fleet, target: Target) -> Iterator[ModelTimer | None]:
    """Run models on a device of `fleet`; None where its sessions run kernels only.
    Raises RPCError without a device."""
    session = fleet.open(0, _WAIT_S)
    try:
        if isinstance(session, RunsModels):
            runs = session.run_model
            yield lambda path: runs(path, target.device_type, _SAMPLES, _SAMPLE_MS)
        else:
            yield None
    finally:
        session.close()


def guarded(
    mod: IRModule | Function, target: Target, params: Mapping[str, Any] | None, find: Question, fleet: Fleet
) -> GuardedModel | None:
    """Run `guard_model` on a device of `fleet`.
    If that is not possible, a warning says why, because the tuning is done."""
    try:
        with model_timer(fleet, target) as timer:
            return None if timer is None else guard_model(mod, target, params, find, timer)
    except TunefarmError as error:
        _log.warning("the tuned model was not compared with the untuned one: %s", error.message)
        return None


def _changed(kernels: Mapping[str, ModelKernel], target: Target, find: Question) -> Iterator[str]:
    """The keys of the kernels whose records are other schedules than an untuned build's."""
    chosen = backend_of(target).complete(target)
    tuned = {key: made for key, kernel in kernels.items() if (made := find(kernel.func, chosen)) is not None}
    funcs: Sequence[PrimFunc] = [kernels[key].func for key in tuned]
    asked().prepare(funcs, chosen)
    for key, func in zip(tuned, funcs, strict=True):
        untuned = asked().pick(func, chosen) or backend_of(target).default_schedule(func)
        if workload_key(untuned) != workload_key(tuned[key]):
            yield key


@dataclass(frozen=True)
class _Builds:
    """Builds of one model as files of a folder."""

    mod: IRModule | Function
    target: Target
    params: Mapping[str, Any] | None
    find: Question
    folder: Path

    def with_tuned(self, keys: frozenset[str]) -> Path:
        """The model with the known schedules of the kernels of these keys, the others drafted."""

        def find(func: PrimFunc, target: Target) -> PrimFunc | None:
            return self.find(func, target) if keys and workload_key(func) in keys else None

        now = asked()
        with kernel_schedules(KernelSchedules(find, now.pick, now.prepare, now.sized)):
            built = build_graph(self.mod, self.target, self.params, exec_mode="compiled")
        path = self.folder / f"{len(list(self.folder.iterdir()))}.tunefarm"
        built.export_library(str(path))
        return path
