"""Mutators: how a search varies a decision.

Each picks one sampling step of its kind and decides it anew.

One of your own is a subclass of `Mutator` (also called `PyMutator`) with `apply`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace
from compiler.schedule.primitives.sampling import divisors
from tuner.faces.meta_schedule.spaces.target_kinds import require_cpu

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext


class Mutator(ABC):
    """The contract: `apply` gives the trace with a decision varied, or None when there is nothing to vary.

    A subclass's `apply` may take the seed or not.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls).get("apply")
        if own is not None:
            cls.apply = _seeded(own)  # type: ignore[method-assign]

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        """Told once, before `apply`, what is tuned for what."""
        self.target = context.target

    @abstractmethod
    def apply(self, trace: Trace, rand_state: int = 0) -> Trace | None:
        """A neighbour of `trace`; `rand_state` seeds the choice."""

    def clone(self) -> Mutator:
        """A mutator to use for another task."""
        return self

    @staticmethod
    def create(kind: str = "llvm") -> dict[Mutator, float]:
        """Those for a kind of target with their probabilities. Raises TuningError where there are none."""
        require_cpu(kind, "mutators")
        return {MutateTileSize(): 0.9, MutateComputeLocation(): 0.05, MutateUnroll(): 0.03, MutateParallel(16): 0.02}


def _seeded(apply: Callable[..., Trace | None]) -> Callable[..., Trace | None]:
    """Let `apply` be called with a seed and without, whichever it takes itself."""
    takes_seed = len(inspect.signature(apply).parameters) > len(("self", "trace"))

    @wraps(apply)
    def applied(self: Mutator, trace: Trace, rand_state: int = 0) -> Trace | None:
        return apply(self, trace, rand_state) if takes_seed else apply(self, trace)

    return applied


PyMutator = Mutator


def _steps(trace: Trace, prim: str) -> list[int]:
    return [at for at, step in enumerate(trace.sampling_steps) if step.prim == prim]


class MutateTileSize(Mutator):
    """Moves a factor from one part of a tile to another."""

    def apply(self, trace: Trace, rand_state: int = 0) -> Trace | None:
        rng = np.random.default_rng(rand_state)
        tiles = [
            at
            for at in _steps(trace, "sample_perfect_tile")
            if isinstance(given := trace.decisions[at], tuple) and len(given) > 1 and max(given) > 1
        ]
        if not tiles:
            return None
        at = tiles[int(rng.integers(len(tiles)))]
        step, parts = trace.sampling_steps[at], trace.decisions[at]
        assert isinstance(parts, tuple)
        moved = _moved(rng, parts, dict(step.attrs)["max_innermost_factor"])
        return None if moved is None else trace.with_decision(at, moved)


def _moved(rng: np.random.Generator, parts: tuple[int, ...], innermost: int) -> tuple[int, ...] | None:
    moves = [
        (source, to, factor)
        for source in range(len(parts))
        for to in range(len(parts))
        for factor in divisors(parts[source])[1:]
        if source != to and (to != len(parts) - 1 or parts[to] * factor <= innermost)
    ]
    if not moves:
        return None
    source, to, factor = moves[int(rng.integers(len(moves)))]
    changed = list(parts)
    changed[source] //= factor
    changed[to] *= factor
    return tuple(changed)


class _ChangeDecision(Mutator):
    """Decides another categorical step, of those `_is_mine` takes, anew."""

    NOTE: ClassVar[str]

    def apply(self, trace: Trace, rand_state: int = 0) -> Trace | None:
        rng = np.random.default_rng(rand_state)
        noted = [at for at in _steps(trace, "sample_categorical") if self._is_mine(trace, trace.sampling_steps[at])]
        if not noted:
            return None
        at = noted[int(rng.integers(len(noted)))]
        others = [i for i in range(len(dict(trace.sampling_steps[at].attrs)["candidates"])) if i != trace.decisions[at]]
        return trace.with_decision(at, others[int(rng.integers(len(others)))]) if others else None

    def _is_mine(self, trace: Trace, step: Step) -> bool:
        """Whether what the step draws becomes the annotation of this mutator."""
        users = (s for s in trace.steps if s.prim == "annotate" and any(i in step.outputs for i in s.inputs))
        return any(str(dict(user.attrs)["ann_key"]).startswith(self.NOTE) for user in users)


class MutateUnroll(_ChangeDecision):
    """Decides anew how far loops are unrolled."""

    NOTE = "meta_schedule.unroll"


class MutateParallel(_ChangeDecision):
    """Decides anew how much is parallel, where that is sampled."""

    NOTE = "meta_schedule.parallel"

    def __init__(self, max_jobs_per_core: int) -> None:
        self.max_jobs_per_core = max_jobs_per_core


class MutateComputeLocation(Mutator):
    """Moves a block to another loop of its readers."""

    def apply(self, trace: Trace, rand_state: int = 0) -> Trace | None:
        rng = np.random.default_rng(rand_state)
        places = _steps(trace, "sample_compute_location")
        if not places:
            return None
        at = places[int(rng.integers(len(places)))]
        now = trace.decisions[at]
        assert isinstance(now, int)
        return trace.with_decision(at, max(-1, now + (1 if rng.random() < 0.5 else -1)))
