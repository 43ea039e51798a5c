"""A trace as Apache TVM's programs know it.

A list of instructions that grows, and decisions by instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.core import trace as core
from compiler.schedule.core.field_steps import (
    Instruction,
    InstructionKind,
    instruction_of,
    kind_of,
    numbered,
    python_line,
    step_of,
)
from compiler.schedule.core.field_trace import read_field_json
from compiler.schedule.core.moves import Scheduled
from compiler.schedule.core.rv import RV
from compiler.schedule.core.step import Decision, Step, get_primitive

_Provider = Callable[[Instruction, Sequence[Any], Sequence[Any], Any], Any]
_Given = Decision | Sequence[int] | None


class Decisions(tuple[Decision | None, ...]):
    """The decisions of a trace's sampling steps: in order by number, or by the instruction.
    None where open."""

    _steps: tuple[Step, ...]

    @staticmethod
    def of(steps: Iterable[Step], values: Iterable[Decision | None]) -> Decisions:
        """The decisions of the sampling steps `steps`."""
        made = Decisions(values)
        made._steps = tuple(steps)
        return made

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Instruction):
            found = dict(self.items())
            if key not in found:
                raise KeyError(f"{key} has no decision in this trace")
            return found[key]
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return key in dict(self.items()) if isinstance(key, Instruction) else super().__contains__(key)

    def get(self, inst: Instruction, default: Any = None) -> Any:
        """The decision of `inst`, or `default`."""
        return dict(self.items()).get(inst, default)

    def keys(self) -> list[Instruction]:
        """The instructions that have a decision."""
        return [inst for inst, _ in self.items()]

    def items(self) -> list[tuple[Instruction, Decision]]:
        """The instructions that have a decision, with it."""
        return [(_instruction(step), value) for step, value in zip(self._steps, self) if value is not None]


class Trace(core.Trace):
    """The steps of a schedule as instructions.

    `insts` are instructions, `decisions` what sampling ones decided. A trace that a program made grows and shrinks by
    `append` and `pop`. That of a schedule is a copy. Raises FieldTraceError for an instruction that is not as TVM makes
    it.
    """

    def __init__(
        self,
        insts: Iterable[Instruction | Step] = (),
        decisions: Mapping[Instruction, _Given] | Sequence[_Given] = (),
        *,
        steps: Iterable[Step] | None = None,
    ) -> None:
        given = insts if steps is None else steps
        taken = tuple(inst if isinstance(inst, Step) else step_of(inst) for inst in given)
        if isinstance(decisions, Mapping):
            known = {step_of(inst): value for inst, value in decisions.items()}
            drawn = [step for step in taken if get_primitive(step.prim).draw is not None]
            decisions = [known.get(step) for step in drawn]
        self._hold(taken, decisions)

    def _hold(self, steps: tuple[Step, ...], decisions: Iterable[_Given]) -> None:
        plain = [tuple(map(int, d)) if isinstance(d, Iterable) else None if d is None else int(d) for d in decisions]
        drawn = [step for step in steps if get_primitive(step.prim).draw is not None]
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "decisions", Decisions.of(drawn, plain))
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, core.Trace):
            return NotImplemented
        return self.steps == other.steps and tuple(self.decisions) == tuple(other.decisions)

    def __hash__(self) -> int:
        return hash((self.steps, tuple(self.decisions)))

    @staticmethod
    def of(trace: core.Trace) -> Trace:
        """`trace` as one of this class."""
        return Trace(steps=trace.steps, decisions=trace.decisions)

    @staticmethod
    def from_json(text: str | bytes) -> Trace:
        """The trace that `to_json` wrote as `text`. Raises ScheduleError."""
        return Trace.of(core.Trace.from_json(text))

    @staticmethod
    def from_field_json(trace: Any) -> Trace:
        """The trace that `as_json` wrote, or TVM. Raises FieldTraceError."""
        steps, decisions = read_field_json(trace)
        return Trace(steps=steps, decisions=decisions)

    @property
    def insts(self) -> list[Instruction]:  # type: ignore[override]  # the core's are steps
        """The instructions, in order."""
        return [_instruction(step) for step in self.steps]

    def append(self, inst: Instruction, decision: _Given = None) -> None:
        """Add an instruction at the end. Raises FieldTraceError for one that is not as TVM makes it."""
        step = step_of(inst)
        drawn = [decision] if get_primitive(step.prim).draw is not None else []
        self._hold((*self.steps, step), [*self.decisions, *drawn])

    def pop(self) -> Instruction | None:
        """Take the last instruction off and return it; None where there is none."""
        if not self.steps:
            return None
        *kept, last = self.steps
        drawn = get_primitive(last.prim).draw is not None
        self._hold(tuple(kept), self.decisions[:-1] if drawn else self.decisions)
        return _instruction(last)

    def get_decision(self, inst: Instruction | Step) -> Decision | None:
        """The decision of a sampling instruction; None where it is open, or for another instruction."""
        wanted = inst if isinstance(inst, Instruction) else _instruction(inst)
        found: Decision | None = self.decisions.get(wanted) if isinstance(self.decisions, Decisions) else None
        return found

    def with_decision(self, inst: Instruction | int, decision: _Given, remove_postproc: bool = False) -> Trace:
        """Return the same trace with another decision for a sampling instruction.
        The instruction is given itself, or by its number among them. Raises ScheduleError when there is none."""
        drawn = [_instruction(step) for step in self.sampling_steps]
        if isinstance(inst, Instruction):
            if inst not in drawn:
                raise ScheduleError(f"trace: {inst} takes no decision in it")
            inst = drawn.index(inst)
        changed = Trace.of(core.Trace(self.steps, tuple(self.decisions)).with_decision(inst, decision))
        return changed.simplified(remove_postproc=True) if remove_postproc else changed

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without instructions whose results nothing uses.
        With `remove_postproc`, also without those after `enter_postproc`."""
        return Trace.of(super().simplified(remove_postproc))

    def apply_to_schedule(
        self, sch: Scheduled, remove_postproc: bool = False, decision_provider: _Provider | None = None
    ) -> None:
        """Apply these steps to `sch`.
        `decision_provider(inst, inputs, attrs, decision)`, if given, gives the decisions. Raises ScheduleError for an
        illegal step."""
        trace: core.Trace = self.simplified(remove_postproc=True) if remove_postproc else self
        if decision_provider is not None:
            trace = Trace(steps=trace.steps, decisions=list(_provided(trace, decision_provider)))
        core.Trace(trace.steps, tuple(trace.decisions)).apply_to_schedule(sch)

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """The calls on a schedule `sch` that make it, one a line."""
        trace = self.simplified(remove_postproc=True) if remove_postproc else self
        names: dict[RV, str] = {}
        lines = []
        for move in trace.moves():
            inst = _instruction(move.step)
            numbered(inst.outputs, names)
            lines.append(python_line(inst, names.__getitem__, move.decision))
        return lines

    def __str__(self) -> str:
        lines = self.as_python() or ["pass"]
        return "\n  ".join(["# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:", *lines])

    __repr__ = __str__

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the calls that make it."""
        print(self)


def _provided(trace: core.Trace, provider: _Provider) -> Iterator[_Given]:
    for move in trace.moves():
        if move.is_drawn:
            inst = _instruction(move.step)
            yield provider(inst, inst.inputs, inst.attrs, move.decision)


def _instruction(step: Step) -> Instruction:
    """The instruction of a step. A step that TVM does not have is one under its own name."""
    if kind_of(step.prim) is not None:
        return instruction_of(step)
    kind = InstructionKind(step.prim, step.prim, ("_inputs*",), tuple(name for name, _ in step.attrs))
    return Instruction(kind, step.inputs, [value for _, value in step.attrs], step.outputs)
