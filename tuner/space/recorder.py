"""Recording the open decisions of a sketch while its trace is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.schedule.schedule import ExprRV, Schedule
from tuner.space.sketch import Decision


@dataclass(frozen=True)
class Choice:
    """A decision and the variable that stands for it in later steps."""

    decision: Decision
    rv: ExprRV


@dataclass
class Recorder:
    """Adds sampling steps to `sch` and remembers them in order. `start` holds the values to begin with."""

    sch: Schedule
    decisions: list[Decision] = field(default_factory=list)

    def choose(self, name: str, values: tuple[int, ...]) -> Choice:
        """An open decision over `values`; its first value is the one the recorded trace holds."""
        decision = Decision(name, values)
        self.decisions.append(decision)
        even = [1.0 / len(values)] * len(values)
        return Choice(decision, self.sch.sample_categorical(list(values), even, decision=0))
