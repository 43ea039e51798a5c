"""Traces in the JSON of Apache TVM.

Instructions by its names, results numbered over all kinds, and decisions apart.

[[["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]], ...], [[3, [8, 8]]]]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compiler.errors import ScheduleError
from compiler.schedule.core.field_maps import map_of_saved, places_of, saved_map
from compiler.schedule.core.field_steps import (
    INSTRUCTIONS,
    MAPS,
    FieldTraceError,
    Instruction,
    InstructionKind,
    field_name,
    instruction_of,
    numbered,
    step_of,
)
from compiler.schedule.core.moves import Move, play
from compiler.schedule.core.rv import RV, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.step import Decision, Step, get_primitive

if TYPE_CHECKING:
    from compiler.schedule.core.schedule import Schedule
    from compiler.schedule.core.trace import Trace

__all__ = ["INSTRUCTIONS", "FieldTraceError", "as_field_json", "field_name", "play_field_json", "read_field_json"]

_MAX_STEPS = 20_000


# ------------------------------------------------------------------------------------ writing


def as_field_json(trace: Trace) -> list[list[Any]]:
    """The trace as lists of its instructions and decisions.
    Raises FieldTraceError for a step unknown to TVM."""
    names: dict[RV, str] = {}
    steps: list[Any] = []
    decided: list[Any] = []
    for at, move in enumerate(trace.moves()):
        inst = instruction_of(move.step)
        kind = inst.kind
        inputs = [
            saved_map(given) if part in MAPS and isinstance(given, str) else _input(given, names)
            for part, given in zip((*kind.inputs, *[""] * len(inst.inputs)), inst.inputs)
        ]
        rank = places_of(inst.inputs[1]) if "pad_value" in kind.attrs else 0
        attrs = [saved_map(value, rank) if name in MAPS and value is not None else _number(value)
                 for name, value in zip(kind.attrs, inst.attrs)]  # fmt: skip
        steps.append([kind.name, inputs, attrs, numbered(inst.outputs, names)])
        if move.is_drawn and move.decision is not None:
            decided.append([at, _number(move.decision)])
    return [steps, decided]


def _input(given: Any, names: Mapping[RV, str]) -> Any:
    match given:
        case BlockRV() | LoopRV() | ExprRV():
            return names[given]
        case None:
            return "None"
        case str():
            return json.dumps(given)
        case tuple():
            return [_input(item, names) for item in given]
    return _number(given)


def _number(value: Any) -> Any:
    """Plain data with numbers for truth values and lists for tuples."""
    if isinstance(value, bool):
        return int(value)
    return [_number(item) for item in value] if isinstance(value, tuple) else value


# ------------------------------------------------------------------------------------ reading


def play_field_json(sch: Schedule, trace: Any) -> None:
    """Apply the steps of a TVM trace to `sch`.
    Raises FieldTraceError naming the step that is unknown, malformed or illegal here. The steps before it stay
    applied."""
    read = _read(trace)
    names = iter(name for name, _, _ in read)

    def take(move: Move) -> tuple[RV, ...]:
        name = next(names)
        try:
            made = move.take_on(sch)
        except ScheduleError as error:
            raise FieldTraceError(f"step {name} of the trace: {error.message}") from None
        wanted = len(move.step.outputs)
        if len(made) != wanted:
            raise FieldTraceError(f"step {name} of the trace gives {len(made)} results here, not {wanted}")
        return made

    play((Move(step, step, decision, decision is not None) for _, step, decision in read), take)


def read_field_json(trace: Any) -> tuple[tuple[Step, ...], tuple[Decision | None, ...]]:
    """The steps of a trace of TVM's, and their decisions. Raises FieldTraceError."""
    read = _read(trace)
    drawn = tuple(decision for _, step, decision in read if get_primitive(step.prim).draw is not None)
    return tuple(step for _, step, _ in read), drawn


def _read(trace: Any) -> list[tuple[str, Step, Decision | None]]:
    match _loaded(trace) if isinstance(trace, str) else trace:
        case [[*steps], [*decided]] if len(steps) <= _MAX_STEPS:
            decisions = {_position(entry): _decision(entry[1]) for entry in decided}
            reader = _Reader()
            return [(*reader.one(step), decisions.get(at)) for at, step in enumerate(steps)]
    raise FieldTraceError("a trace is a list of its instructions and a list of its decisions")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _position(entry: Any) -> int:
    match entry:
        case [int(at), _]:
            return at
    raise FieldTraceError(f"{str(entry)[:60]} is no decision of a trace")


def _decision(value: Any) -> Decision:
    match value:
        case int():
            return value
        case [*items] if all(type(item) is int for item in items):
            return tuple(items)
    raise FieldTraceError(f"{str(value)[:60]} is no decision of a trace")


class _Reader:
    """Reads instructions, and knows the names that earlier ones gave to their results."""

    def __init__(self) -> None:
        self._names: dict[str, RV] = {}

    def one(self, item: Any) -> tuple[str, Step]:
        """The name and the step of an instruction."""
        match item:
            case [str(name), [*inputs], [*attrs], [*outputs]]:
                kind = InstructionKind.get(name)
            case _:
                raise FieldTraceError(f"{str(item)[:60]} is no instruction of a trace")
        try:
            given = [self._map_or_value(part, value) for part, value in
                     zip((*kind.inputs, *[""] * len(inputs)), inputs)]  # fmt: skip
            held = [self._attribute(part, value) for part, value in zip(kind.attrs, attrs)]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, FieldTraceError):
                raise
            raise FieldTraceError(f"step {name} of the trace is not as TVM writes it: {error}") from None
        return name, step_of(Instruction(kind, given, held, [self._named(kind, str(made)) for made in outputs]))

    def _named(self, kind: InstructionKind, name: str) -> RV:
        made = get_primitive(kind.prim).output_type
        if made is None:
            raise FieldTraceError(f"step {kind.name} of the trace has no result such as {name[:40]!r}")
        self._names[name] = made(len(self._names))
        return self._names[name]

    def _map_or_value(self, part: str, value: Any) -> Any:
        return map_of_saved(value) if part in MAPS and isinstance(value, str) else self._value(value)

    @staticmethod
    def _attribute(part: str, value: Any) -> Any:
        return map_of_saved(value) if part in MAPS and isinstance(value, str) else value

    def _value(self, given: Any) -> Any:
        """An input: the name of an earlier result, text in quotes of its own, or plain data."""
        match given:
            case str() if given in self._names:
                return self._names[given]
            case "None":
                return None
            case str() if given.startswith('"'):
                return json.loads(given)
            case str():
                raise FieldTraceError(f"the trace uses {given[:40]!r}, which no step before gave")
            case list():
                return [self._value(item) for item in given]
        return given
