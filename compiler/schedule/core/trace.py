"""A trace: the steps of a schedule, and separately the decisions of its sampling steps.

A trace is the tuning record. Its text is JSON, the same for the same trace:

    {"format":"tunefarm.trace","version":1,
     "steps":[["get_block",[],{"name":"C"},["b0"]],["get_loops",["b0"],{},["l0","l1"]], ...],
     "decisions":[2,[32,16]]}

A step is [primitive, inputs, attributes, outputs]; `decisions` has one entry a sampling step, in order, null
where it is open. Text from elsewhere is checked in full before anything runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from compiler.errors import ScheduleError
from compiler.schedule import primitives as _primitives  # noqa: F401  (registers them)
from compiler.schedule.core.field_trace import as_field_json, play_field_json
from compiler.schedule.core.moves import Move, Scheduled, play
from compiler.schedule.core.rv import RV, parse_rv
from compiler.schedule.core.step import Decision, Input, Step, check_step, get_primitive

if TYPE_CHECKING:
    from compiler.schedule.core.schedule import Schedule

FORMAT = "tunefarm.trace"
VERSION = 1
_MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Trace:
    """`decisions[i]` is the outcome of the i-th sampling step, None where it is open."""

    steps: tuple[Step, ...] = ()
    decisions: tuple[Decision | None, ...] = ()

    def __post_init__(self) -> None:
        if len(self.decisions) != len(self.sampling_steps):
            raise ScheduleError(f"trace: {len(self.decisions)} decisions for {len(self.sampling_steps)} sampling steps")

    @property
    def insts(self) -> tuple[Step, ...]:
        """The steps, under TVM's name."""
        return self.steps

    @property
    def sampling_steps(self) -> tuple[Step, ...]:
        """The steps that take a decision, in order."""
        return tuple(s for s in self.steps if get_primitive(s.prim).draw is not None)

    def with_decisions(self, decisions: Sequence[Decision | Sequence[int] | None]) -> Trace:
        """The same steps with other decisions, one a sampling step in order. Raises ScheduleError unless there
        are as many."""
        return replace(self, decisions=tuple(_as_decision(d) for d in decisions))

    def with_decision(self, index: int, decision: Decision | Sequence[int] | None) -> Trace:
        """The same trace with another decision for its `index`-th sampling step.
        Raises ScheduleError when there is none."""
        if not 0 <= index < len(self.decisions):
            raise ScheduleError(f"trace: it has {len(self.decisions)} sampling steps, no number {index}")
        return self.with_decisions([*self.decisions[:index], decision, *self.decisions[index + 1 :]])

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without steps whose results have no use.
        It makes the same function. With `remove_postproc` it ends before `enter_postproc`."""
        names = [s.prim for s in self.steps]
        end = names.index("enter_postproc") if remove_postproc and "enter_postproc" in names else len(names)
        used: set[RV] = set()
        kept: list[int] = []
        for at in range(end - 1, -1, -1):
            step, prim = self.steps[at], get_primitive(self.steps[at].prim)
            only_names = prim.output_type is not None and (prim.draw is not None or step.prim.startswith("get_"))
            if only_names and used.isdisjoint(step.outputs):
                continue
            used.update(i for i in step.inputs if isinstance(i, RV))
            kept.append(at)
        kept.reverse()
        moves = list(self.moves())
        return Trace(
            tuple(moves[at].step for at in kept), tuple(moves[at].decision for at in kept if moves[at].is_drawn)
        )

    def moves(self) -> Iterator[Move]:
        """Yield the steps with their decisions."""
        decisions = iter(self.decisions)
        for step in self.steps:
            is_drawn = get_primitive(step.prim).draw is not None
            yield Move(step, step, next(decisions) if is_drawn else None, is_drawn)

    def play(self, take: Callable[[Move], Sequence[RV]]) -> None:
        """Replay the steps on a schedule with names of its own.

        `take` carries a move out and returns its results, by which later moves find their inputs.
        """
        play(self.moves(), take)

    def apply_to_schedule(self, sch: Scheduled, remove_postproc: bool = False) -> None:
        """Apply these steps to `sch`, whose function may have been scheduled before.
        Raises ScheduleError for an illegal step; the steps before it stay applied."""
        trace = self.simplified(remove_postproc=True) if remove_postproc else self
        trace.play(lambda move: move.take_on(sch))

    def as_json(self, remove_postproc: bool = False) -> Any:
        """The trace as Apache TVM writes it: lists of instructions and decisions.
        Raises FieldTraceError for a step that TVM does not have; `to_json` writes every step."""
        return as_field_json(self.simplified(remove_postproc=True) if remove_postproc else self)

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Schedule) -> None:
        """Take the steps of a trace that TVM wrote on `sch`. Raises FieldTraceError."""
        play_field_json(sch, json_obj)

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the calls that make it."""
        print(self.to_python())

    def get_decision(self, inst: Step) -> Decision | None:
        """The decision of a sampling step of this trace; None where it is open, or for another step."""
        return next((move.decision for move in self.moves() if move.step is inst), None)

    def to_json(self) -> str:
        """The trace as text; equal for equal traces."""
        steps = [[s.prim, [_input_text(i) for i in s.inputs], dict(s.attrs), [str(o) for o in s.outputs]]
                 for s in self.steps]  # fmt: skip
        record = {"format": FORMAT, "version": VERSION, "steps": steps, "decisions": self.decisions}
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> Trace:
        """The trace that `to_json` wrote as `text`.

        Raises ScheduleError for text that is no trace, or of another version. It also raises it for an unknown
        primitive or a malformed step, which the error names.
        """
        try:
            record = msgspec.json.decode(text, type=_Written)
        except msgspec.ValidationError:
            raise ScheduleError(f"trace: not a schedule trace: no format {FORMAT!r}") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ScheduleError(f"trace: not JSON: {error}") from None
        if record.format != FORMAT:
            raise ScheduleError(f"trace: not a schedule trace: no format {FORMAT!r}")
        if record.version != VERSION or isinstance(record.version, bool):
            raise ScheduleError(
                f"trace: version {str(record.version)[:20]} is not known here, only version {VERSION}",
                hint="it was written by another release of tunefarm",
            )
        steps, decisions = _steps_of(bytes(record.steps)), _list_of(bytes(record.decisions))
        return Trace(steps, tuple(_as_decision(d) for d in decisions))

    def __str__(self) -> str:
        return self.to_python()

    def to_python(self, name: str = "sch") -> str:
        """The trace as the Python calls that make it."""
        return "\n".join(_python_line(name, move.step, move.decision) for move in self.moves())


# -------------------------------------------------------------------------------- reading JSON


class _Written(msgspec.Struct):
    """A trace's text, whose steps are read apart."""

    format: Any = None
    version: Any = None
    steps: msgspec.Raw = msgspec.Raw(b"null")
    decisions: msgspec.Raw = msgspec.Raw(b"null")


@lru_cache(maxsize=32)
def _steps_of(text: bytes) -> tuple[Step, ...]:
    """The steps of `text`, cached: traces of one sketch share them, and differ in the decisions."""
    return _read_steps(_list_of(text))


def _list_of(text: bytes) -> list[Any]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"trace: not JSON: {error}") from None
    if not isinstance(items, list) or len(items) > _MAX_STEPS:
        raise ScheduleError(f"trace: steps and decisions must be lists, of at most {_MAX_STEPS} steps")
    return items


def _read_steps(items: list[Any]) -> tuple[Step, ...]:
    known: set[RV] = set()
    steps: list[Step] = []
    for number, item in enumerate(items):
        try:
            step = _read_step(item)
            _check_names(step, known)
        except ScheduleError as error:
            raise ScheduleError(f"trace: step {number}: {error.message}", hint=error.hint) from None
        steps.append(step)
    return tuple(steps)


def _read_step(item: Any) -> Step:
    match item:
        case [str(prim), list(inputs), dict(attrs), list(outputs)]:
            values = tuple((key, _frozen(value)) for key, value in attrs.items())
            step = Step(prim, tuple(map(_read_input, inputs)), values, tuple(map(_read_output, outputs)))
            check_step(step)
            return step
    raise ScheduleError("it is not [primitive, inputs, attributes, outputs]")


def _check_names(step: Step, known: set[RV]) -> None:
    prim = get_primitive(step.prim)
    if not prim.several and len(step.outputs) != (prim.output_type is not None):
        raise ScheduleError(f"{step.prim}: {len(step.outputs)} outputs")
    for value in step.inputs:
        if isinstance(value, RV) and value not in known:
            raise ScheduleError(f"{step.prim}: {value} is used before it is named")
    for output in step.outputs:
        if type(output) is not prim.output_type:
            raise ScheduleError(f"{step.prim}: it has no result such as {output}")
        if output in known:
            raise ScheduleError(f"{step.prim}: {output} is named twice")
        known.add(output)


def _read_input(value: Any) -> Input:
    match value:
        case None:
            return None
        case bool():
            pass
        case int() if abs(value) < 1 << 62:
            return value
        case str():
            return parse_rv(value)
    raise ScheduleError(f"{str(value)[:40]!r} is no input")


def _read_output(value: Any) -> RV:
    if not isinstance(value, str):
        raise ScheduleError(f"{str(value)[:40]!r} is no output")
    return parse_rv(value)


def _frozen(value: Any) -> Any:
    """Plain data with tuples for lists. Raises ScheduleError for anything else, such as a nested object."""
    match value:
        case None | bool() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case int() if abs(value) < 1 << 62:
            return value
        case list():
            return tuple(_frozen(v) for v in value)
    raise ScheduleError(f"{str(value)[:40]!r} is no attribute value")


def _as_decision(value: Any) -> Decision | None:
    match value:
        case None:
            return None
        case bool():
            pass
        case int():
            return value
        case list() | tuple() if all(type(v) is int for v in value):
            return tuple(value)
    raise ScheduleError(f"trace: {str(value)[:40]!r} is no decision: it is an integer, a list of them, or null")


def _input_text(value: Input) -> str | int | None:
    return str(value) if isinstance(value, RV) else value


# ------------------------------------------------------------------------------ writing Python


def _python_line(name: str, step: Step, decision: Decision | None) -> str:
    prim = get_primitive(step.prim)
    inputs = [str(i) for i in step.inputs]
    if prim.spell is not None:
        return f"{_targets(step)}{name}.{step.prim}({prim.spell(inputs, dict(step.attrs))})"
    if prim.listed:
        fixed = len(prim.inputs) - 1
        inputs = [*inputs[:fixed], f"[{', '.join(inputs[fixed:])}]"]
    keywords = [f"{key}={_literal(value)}" for key, value in step.attrs]
    if prim.draw is not None:
        keywords.append(f"decision={_literal(decision)}")
    call = f"{name}.{step.prim}({', '.join([*inputs, *keywords])})"
    return f"{_targets(step)}{call}"


def _targets(step: Step) -> str:
    if not step.outputs:
        return ""
    several = get_primitive(step.prim).several
    names = ", ".join(str(o) for o in step.outputs)
    return f"[{names}] = " if several else f"{names} = "


def _literal(value: Any) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
