"""One task's progress within a run: its results, their cost, and its finals. No I/O."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpc_server.wire.trial_messages import FailureKind
from tuner.build.process_builder import CandidateBuild
from tuner.engine.scheduling import TaskView
from tuner.records.lookup.best import Verdict, compare, interval
from tuner.search.base import Proposal, Strategy

_RANKED = 8
_RECENT = 0.2  # weight of the newest trial in the running mean of what trials take


@dataclass(frozen=True)
class Plan:
    """How a task is searched.
    `flops` a call and `group` (tasks of like speed) may be unknown: 0 and "". Kernels use at most `threads`. `draft` is
    what a build without a record uses, where the search knows it."""

    strategy: Strategy
    weight: float = 1.0
    flops: float = 0.0
    group: str = ""
    threads: int = 1
    draft: Proposal | None = None


@dataclass(frozen=True)
class Restored:
    """A trial recorded before: `candidate` is None when it is of no space known today."""

    candidate: Proposal | None
    cost: float | None
    failure: FailureKind | None


@dataclass
class TaskState:
    """The state of a task: its trials, its costs and its share of the time.
    `asked` counts candidates given out, `done` those of them finished, failed ones included; candidates whose result
    another run had count in `known` only. `best_cost` is the lowest, or after the finals (`in_finals`) that of their
    winner; `lowest_cost` only falls. `stale` is how many were done since the last gain, `wall_s` the task's share of
    the time the search has taken. `incumbent` is what the store serves. Costs are seconds a call, or joules (`Goal`);
    `watts` is what the last trial drew that told it."""

    index: int
    plan: Plan
    reference: bytes | None = None
    asked: int = 0
    done: int = 0
    known: int = 0
    stale: int = 0
    exhausted: bool = False
    ahead: Proposal | None = None
    baseline_cost: float | None = None
    last_baseline_cost: float | None = None
    best_cost: float | None = None
    lowest_cost: float | None = None
    in_finals: bool = False
    best: Proposal | None = None
    failures: Counter[FailureKind] = field(default_factory=Counter)
    first_failure: str = ""
    history: list[float] = field(default_factory=list)
    ranking: list[tuple[float, Proposal]] = field(default_factory=list)
    builds: dict[str, CandidateBuild] = field(default_factory=dict)
    incumbent: Proposal | None = None
    finals: Finals | None = None
    wall_s: float = 0.0
    trial_device_s: float | None = None
    trial_build_s: float | None = None
    watts: float | None = None
    ended: bool = False

    @property
    def strategy(self) -> Strategy:
        return self.plan.strategy

    @property
    def begun(self) -> bool:
        """The untuned function is built and measured."""
        return self.reference is not None and self.baseline_cost is not None

    @property
    def cost(self) -> float:
        """Seconds a call of the best there is, the untuned function included."""
        return min((c for c in (self.baseline_cost, self.best_cost) if c is not None), default=0.0)

    def view(self, slots: int, builders: int) -> TaskView:
        """Return what the scheduler sees.
        Builds and measurements overlap, so the slower of the two sets the pace."""
        seconds = None
        if self.trial_device_s is not None and self.trial_build_s is not None:
            seconds = max(self.trial_device_s / max(1, slots), self.trial_build_s / max(1, builders))
        return TaskView(
            index=self.index, asked=self.asked, cost=self.cost, history=self.history, stale=self.stale, seconds=seconds,
            weight=self.plan.weight, flops=self.plan.flops, group=self.plan.group,
        )  # fmt: skip

    # -- the search

    def next_candidate(self) -> Proposal | None:
        """Return what the search offers next; None, and `exhausted`, when that is nothing."""
        self.think_ahead()
        candidate, self.ahead = self.ahead, None
        return candidate

    def think_ahead(self) -> None:
        """Have the search's next candidate at hand."""
        if self.ahead is None:
            self.ahead = next(iter(self.strategy.ask(1)), None)
            self.exhausted = self.ahead is None

    # -- results

    def restore(self, baseline_cost: float | None, trials: Sequence[Restored]) -> None:
        """Go on where an earlier session left it."""
        self.baseline_cost = baseline_cost
        for trial in trials:
            self.asked += 1
            if trial.cost is None:
                assert trial.failure is not None
                self.failed(trial.candidate, trial.failure, "")
            elif trial.candidate is not None:
                self.succeeded(trial.candidate, trial.cost)
            else:
                self.done += 1

    def spent(self, build_s: float, device_s: float) -> None:
        """Note the time of a trial."""
        self.trial_build_s = _mean(self.trial_build_s, build_s)
        self.trial_device_s = _mean(self.trial_device_s, device_s)

    def succeeded(self, candidate: Proposal, cost: float, build: CandidateBuild | None = None) -> None:
        """Note the time of a search trial.
        Its build is kept while the candidate may come into the finals."""
        self.strategy.tell(candidate, cost)
        self._rank(candidate, cost, build)
        self._count()

    def failed(self, candidate: Proposal | None, kind: FailureKind, text: str) -> None:
        """Note a failed search trial. `candidate` is None when it is of no space known today."""
        self.note_failure(kind, text)
        if candidate is not None:
            self.strategy.tell(candidate, None)
        self._count()

    def note_failure(self, kind: FailureKind, text: str) -> None:
        self.failures[kind] += 1
        self.first_failure = self.first_failure or text

    def learned(self, candidate: Proposal, cost: float | None) -> None:
        """Another run's result, which costs this one nothing."""
        self.known += 1
        self.strategy.tell(candidate, cost)
        if cost is not None:
            self._rank(candidate, cost, None)

    def _rank(self, candidate: Proposal, cost: float, build: CandidateBuild | None) -> None:
        self.ranking.append((cost, candidate))
        self.ranking.sort(key=lambda entry: entry[0])
        if build is not None:
            self.builds[candidate.digest] = build
        for _, dropped in self.ranking[_RANKED:]:
            self.builds.pop(dropped.digest, None)
        del self.ranking[_RANKED:]
        if self.best_cost is None or cost < self.best_cost:
            self.best_cost, self.best = cost, candidate
            self.lowest_cost = cost

    def _count(self) -> None:
        before = self.history[-1] if self.history else self.baseline_cost
        self.done += 1
        self.history.append(self.cost)
        self.stale = 0 if before is not None and self.cost < before else self.stale + 1

    def is_like(self, count: int, kind: FailureKind) -> bool:
        """Whether all of the first `count` or more trials failed with `kind`."""
        return self.done >= count and self.failures[kind] == self.done

    # -- finals

    @property
    def served(self) -> Proposal | None:
        """Return the config of builds so far: the one that the store serves, or else the draft."""
        return self.plan.draft if self.incumbent is None else self.incumbent

    def finalists(self, count: int) -> list[Proposal]:
        """The fastest `count`, what the store serves, and the draft, once each.

        Where times scatter much, the fastest were lucky for a part. The draft is known to be good without a trial, and
        it may have been unlucky. Empty when there is nothing to compare.
        """
        if not self.ranking:
            return []
        entered = (self.served, *(c for _, c in self.ranking[:count]), self.plan.draft)
        found = {c.digest: c for c in entered if c is not None}
        return list(found.values()) if len(found) > 1 else []

    def crown(self) -> None:
        """The best after the finals: the lowest median of the samples taken there, in turns.
        What is served stays unless another one is clearly faster."""
        samples = self.finals.samples if self.finals is not None else {}
        known = {c.digest: c for c in (*(c for _, c in self.ranking), self.served, self.plan.draft) if c is not None}
        entries = {d: s for d, s in samples.items() if s and d in known}
        if not entries:
            return
        winner = min(entries, key=lambda d: statistics.median(entries[d]))
        held = self.served.digest if self.served is not None else None
        if held in entries and held is not None and held != winner:
            verdict = compare(interval(entries[held]), interval(entries[winner]))
            winner = winner if verdict is Verdict.FASTER else held
        self.best, self.best_cost = known[winner], statistics.median(entries[winner])
        self.in_finals = True


@dataclass
class Finals:
    """The last comparison, in rounds in which every one of the `rivals` has a turn.
    `turns` remain in this round, `given` are under way, and `rounds` follow. Who stays is decided when a round is
    over, so all turns of one may be given ahead. `building` lacks a build yet, and `slot` is where it happens.
    `closing` is set when the untuned function's second measurement was given, which is the last."""

    rivals: list[Proposal]
    rounds: int
    turns: list[Proposal] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    samples: dict[str, list[float]] = field(default_factory=dict)
    building: set[str] = field(default_factory=set)
    slot: int | None = None
    closing: bool = False

    @staticmethod
    def of(finalists: Sequence[Proposal], rounds: int) -> Finals:
        """`rounds` turns each, in turns, so that a drift of the machine hits all of them."""
        finals = Finals(list(finalists), rounds)
        finals._begin_round()
        return finals

    @property
    def are_over(self) -> bool:
        """Whether no turn is left to give, whatever comes of those under way."""
        return not self.turns and not (self.given and self.rounds)

    def next_turn(self) -> Proposal | None:
        """Give the next turn of this round; None without one, or if it must wait for those under way."""
        if not self.turns:
            return None
        candidate = self.turns.pop(0)
        self.given.add(candidate.digest)
        return candidate

    def measured(self, digest: str, samples: Sequence[float]) -> None:
        """A finalist's turn is over."""
        self.samples.setdefault(digest, []).extend(samples)
        self._over(digest)

    def drop(self, digest: str) -> None:
        """A finalist that failed is out, whatever it showed before."""
        self.rivals = [c for c in self.rivals if c.digest != digest]
        self.turns = [c for c in self.turns if c.digest != digest]
        self.samples.pop(digest, None)
        self._over(digest)

    def _over(self, digest: str) -> None:
        """Drop those clearly slower than the fastest after each round.
        A single one left needs no more rounds."""
        self.given.discard(digest)
        if self.turns or self.given:
            return  # in the middle of a round
        intervals = {c.digest: interval(self.samples[c.digest]) for c in self.rivals if c.digest in self.samples}
        if intervals:
            fastest = min(intervals.values(), key=lambda found: found.median)
            slower = {d for d, found in intervals.items() if compare(fastest, found) is Verdict.SLOWER}
            self.rivals = [c for c in self.rivals if c.digest not in slower]
        self._begin_round()

    def _begin_round(self) -> None:
        if self.rounds and len(self.rivals) > 1:
            self.rounds -= 1
            self.turns = list(self.rivals)
        else:
            self.rounds = 0


def _mean(old: float | None, new: float) -> float:
    return new if old is None else (1 - _RECENT) * old + _RECENT * new
