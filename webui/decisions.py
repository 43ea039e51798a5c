"""Decisions of a run's candidates, and which of them mattered.

A trace's choices are the numbers in it: factors, vector widths, annotation values, places. The same choice has the
same label in two candidates, so the candidates of a run become rows of one table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.errors import CompileError
from compiler.schedule.core.rv import BlockRV, ExprRV, LoopRV
from compiler.schedule.core.step import Decision, Step
from compiler.schedule.core.trace import Trace
from tuner.errors import TuningError
from tuner.kernels.space import config_of
from tuner.model.types import Floats, Ints

Value = int | float | str
_NAMING = frozenset({"get_block", "get_loops", "get_child_blocks", "get_consumers", "get_producers"})
_SILENT = frozenset({"preserve_unit_iters", "preserve_unit_loops", "disable_predication", "ann_key"})
_MOST_GROUPS = 8
_PAIRED = 12  # choices that are looked at in pairs, the most important ones
_ENOUGH = 30  # candidates that both choices of a pair need
_WORTH_SAYING = 0.02
_SURE = 3.5  # deviations that it must be above chance: there are many pairs


@dataclass(frozen=True)
class DecidedCandidate:
    """One measured trial: seconds a call, and what it chose by label."""

    sequence: int
    cost: float
    choices: Mapping[str, Value]


@dataclass(frozen=True)
class DecisionChoice:
    """One label over all candidates.

    `values` are those that occur, rising. `importance` is the share of the variance of log time that it explains by
    itself (0 to 1, corrected for the number of its values). `best` is what the fastest candidate chose; `good` what the
    fastest tenth chose, the most frequent first.
    """

    label: str
    values: tuple[Value, ...]
    importance: float
    best: Value | None
    good: tuple[Value, ...]


def choices_of(text: str) -> dict[str, Value]:
    """The choices in a trace's JSON text, or a config's, by label; none when this version cannot read it."""
    try:
        return dict(config_of(text))
    except TuningError:
        pass
    try:
        return _Reader().read(Trace.from_json(text))
    except CompileError:
        return {}


class _Reader:
    """Names every number of a trace by the step that it decides and what that step is about."""

    def __init__(self) -> None:
        self._about: dict[BlockRV | LoopRV, str] = {}
        self._sampled: dict[ExprRV, Value] = {}
        self._used: dict[str, int] = {}
        self._found: dict[str, Value] = {}

    def read(self, trace: Trace) -> dict[str, Value]:
        decisions = dict(zip(map(id, trace.sampling_steps), trace.decisions, strict=True))
        for step in trace.steps:
            if id(step) in decisions:
                self._sample(step, decisions[id(step)])
            elif step.prim not in _NAMING:
                self._apply(step)
            self._name(step)
        return self._found

    def _sample(self, step: Step, decision: Decision | None) -> None:
        """Note the values that a sampling step drew."""
        candidates = dict(step.attrs).get("candidates")
        drawn: tuple[Value, ...] = ()
        match decision:
            case int() if isinstance(candidates, list | tuple) and 0 <= decision < len(candidates):
                drawn = (candidates[decision],)
            case int():
                drawn = (decision,)
            case tuple():
                drawn = decision
        if not any(isinstance(out, ExprRV) for out in step.outputs):
            self._note(f"{step.prim} {self._subject(step)}", drawn)
        self._sampled.update((out, value) for out, value in zip(step.outputs, drawn) if isinstance(out, ExprRV))

    def _apply(self, step: Step) -> None:
        numbers: list[Value] = []
        for value in step.inputs:
            if isinstance(value, ExprRV):
                if value in self._sampled:
                    numbers.append(self._sampled[value])
            elif isinstance(value, int):
                numbers.append(value)
        words = [str(value) for name, value in step.attrs if name == "ann_key"]
        numbers += [value for name, value in step.attrs if name not in _SILENT and isinstance(value, int | float)]
        self._note(" ".join(filter(None, [step.prim, self._subject(step), *words])), tuple(numbers))

    def _note(self, what: str, values: Sequence[Value]) -> None:
        """A step that occurs again with the same subject gets a number."""
        if not values:
            return
        times = self._used[what] = self._used.get(what, 0) + 1
        what = f"{what} ({times})" if times > 1 else what
        for at, value in enumerate(values):
            self._found[f"{what} [{at}]" if len(values) > 1 else what] = value

    def _subject(self, step: Step) -> str:
        named = [self._about[rv] for rv in step.inputs if isinstance(rv, BlockRV | LoopRV) and rv in self._about]
        return named[0] if named else ""

    def _name(self, step: Step) -> None:
        """Name loops by their block and place in it, and by the loops they were split from."""
        attrs, subject = dict(step.attrs), self._subject(step)
        for at, out in enumerate(step.outputs):
            match out:
                case BlockRV():
                    self._about[out] = str(attrs.get("name") or f"{step.prim} of {subject}")
                case LoopRV() if step.prim == "get_loops":
                    self._about[out] = f"{subject}.{at}"
                case LoopRV():
                    self._about[out] = f"{subject}.{at}" if len(step.outputs) > 1 else subject
                case ExprRV():
                    pass


def rank_choices(candidates: Sequence[DecidedCandidate]) -> tuple[DecisionChoice, ...]:
    """The choices on which the candidates differ, the one that explains most first."""
    ordered = sorted(candidates, key=lambda c: c.cost)
    labels = dict.fromkeys(label for candidate in ordered for label in candidate.choices)
    ranked = [choice for label in labels if (choice := _choice(label, ordered)) is not None]
    return tuple(sorted(ranked, key=lambda choice: -choice.importance))


def _choice(label: str, ordered: Sequence[DecidedCandidate]) -> DecisionChoice | None:
    having = [c for c in ordered if label in c.choices]
    values = sorted({c.choices[label] for c in having}, key=_order)
    if len(values) < 2:
        return None
    fastest = having[: max(1, len(having) // 10)]
    counts: dict[Value, int] = {}
    for candidate in fastest:
        counts[candidate.choices[label]] = counts.get(candidate.choices[label], 0) + 1
    good = tuple(sorted(counts, key=lambda value: (-counts[value], _order(value))))
    share = importance([values.index(c.choices[label]) for c in having], [c.cost for c in having])
    return DecisionChoice(label, tuple(values), share, ordered[0].choices.get(label), good[:3])


def _order(value: Value) -> tuple[bool, float, str]:
    return (True, 0.0, value) if isinstance(value, str) else (False, value, "")


def importance(groups: Sequence[int], costs: Sequence[float]) -> float:
    """The share of the variance of log `costs` between `groups` (rising numbers of equal values).

    Epsilon squared of a one-way analysis of variance (Kelley 1935): corrected for the number of groups, so that a
    choice without effect comes out near 0. More than eight values are put together, neighbours first.
    """
    return _explained(_few(np.asarray(groups)), np.log(np.asarray(costs, dtype=float)))


@dataclass(frozen=True)
class ChoicePair:
    """Two choices: the share of the variance that they explain together, and that neither explains alone."""

    first: str
    second: str
    together: float
    beyond: float


def rank_pairs(
    candidates: Sequence[DecidedCandidate], choices: Sequence[DecisionChoice], most: int = 8
) -> tuple[ChoicePair, ...]:
    """Return the pairs of choices that matter together beyond what each does by itself.

    There are at most `most`, the largest first. The groups of the analysis are then pairs of values. What the pair
    explains beyond its better half alone also holds what the other half adds by itself. So both single shares are
    subtracted, which leaves their interaction. A search that looks closer where it is fast does not try all pairs
    alike; pairs that it never tried show nothing.
    """
    found = []
    for at, first in enumerate(choices[:_PAIRED]):
        for second in choices[at + 1 : _PAIRED]:
            both = [c for c in candidates if first.label in c.choices and second.label in c.choices]
            if len(both) < _ENOUGH:
                continue
            logs = np.log(np.array([c.cost for c in both]))
            one, two = (_few(np.array([x.values.index(c.choices[x.label]) for c in both])) for x in (first, second))
            pairs: Ints = np.unique(one * _MOST_GROUPS + two, return_inverse=True)[1]
            together = _explained(pairs, logs)
            beyond = together - _explained(one, logs) - _explained(two, logs)
            chance = math.sqrt(2.0 * int(pairs.max())) / (len(both) - 1)  # its deviation where nothing has an effect
            if beyond >= max(_WORTH_SAYING, _SURE * chance):
                found.append(ChoicePair(first.label, second.label, together, beyond))
    return tuple(sorted(found, key=lambda pair: -pair.beyond)[:most])


def _few(groups: Ints) -> Ints:
    """At most eight groups, numbered from 0: neighbours are put together."""
    group: Ints = np.unique(groups, return_inverse=True)[1]
    if group.max() >= _MOST_GROUPS:
        edges = np.quantile(group, np.linspace(0, 1, _MOST_GROUPS + 1)[1:-1])
        group = np.unique(np.searchsorted(edges, group, side="left"), return_inverse=True)[1]
    return group


def _explained(group: Ints, logs: Floats) -> float:
    """Epsilon squared: the share of the variance of `logs` that is between groups."""
    count, kinds = len(logs), int(group.max()) + 1
    total = float(((logs - logs.mean()) ** 2).sum())
    if count <= kinds or kinds < 2 or total <= 0.0:
        return 0.0
    sizes = np.bincount(group)
    means = np.bincount(group, weights=logs) / np.maximum(sizes, 1)
    within = float(((logs - means[group]) ** 2).sum())
    return max(0.0, 1.0 - (within / (count - kinds)) / (total / (count - 1)))
