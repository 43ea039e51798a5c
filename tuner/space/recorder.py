"""Recording the open decisions of a sketch while its trace is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.schedule.core.schedule import ExprRV, Schedule
from tuner.space.sketch import Decision, Values, nearest


@dataclass(frozen=True)
class RecordedChoice:
    """A decision and the variable that stands for it in later steps."""

    decision: Decision
    rv: ExprRV


@dataclass
class Recorder:
    """Adds sampling steps to `sch` and remembers them in order.
    `begin` has values, by name, and the recorded trace's decisions are near them. Any other decision is its first."""

    sch: Schedule
    begin: Values = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def choose(self, name: str, values: tuple[int, ...]) -> RecordedChoice:
        """An open decision over `values`."""
        decision = Decision(name, values)
        self.decisions.append(decision)
        at = nearest(values, self.begin[name]) if name in self.begin else 0
        even = [1.0 / len(values)] * len(values)
        return RecordedChoice(decision, self.sch.sample_categorical(list(values), even, decision=at))
