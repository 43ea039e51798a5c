"""Traces in the JSON of Apache TVM: instructions by its names, results numbered over all kinds, and decisions apart.

[[["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]], ...], [[3, [8, 8]]]]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from compiler.errors import ScheduleError
from compiler.schedule.core.rv import RV
from compiler.schedule.core.step import Step
from compiler.tir.nodes import ForKind

if TYPE_CHECKING:
    from compiler.schedule.core.schedule import Schedule
    from compiler.schedule.core.trace import Trace

_MAX_STEPS = 20_000


class FieldTraceError(ScheduleError, ValueError):
    """A trace of Apache TVM that cannot be carried out here, or one of ours that it has no instruction for."""

    kind = "field_trace"


# ------------------------------------------------------------------------------------ writing


def as_field_json(trace: Trace) -> list[list[Any]]:
    """The trace as lists of its instructions and decisions. Raises FieldTraceError for a step unknown to TVM."""
    names: dict[RV, str] = {}
    steps: list[Any] = []
    decided: list[Any] = []
    for at, move in enumerate(trace.moves()):
        step = move.step
        written = _WRITERS.get(step.prim)
        if written is None:
            raise FieldTraceError(f"trace: Apache TVM has no instruction for {step.prim}")
        name, make = written
        given = [names[i] if isinstance(i, RV) else "None" if i is None else i for i in step.inputs]
        inputs, attrs = make(given, dict(step.attrs))
        for made in step.outputs:
            names[made] = f"{str(made)[0]}{len(names)}"
        steps.append([name, inputs, attrs, [names[made] for made in step.outputs]])
        if move.is_drawn and move.decision is not None:
            drawn = move.decision
            decided.append([at, list(drawn) if isinstance(drawn, tuple) else drawn])
    return [steps, decided]


_Parts = tuple[list[Any], list[Any]]
_Write = Callable[[list[Any], dict[str, Any]], _Parts]


def _plain(*attrs: str) -> _Write:
    """The inputs as they are, and these attributes; truth values are numbers there."""

    def make(given: list[Any], held: dict[str, Any]) -> _Parts:
        return given, [_number(held[attr]) for attr in attrs]

    return make


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return [_number(item) for item in value] if isinstance(value, tuple) else value


def _cached(index: str) -> _Write:
    def make(given: list[Any], held: dict[str, Any]) -> _Parts:
        return [given[0], given[1:]], [held[index], held["storage_scope"]]

    return make


def _annotated(given: list[Any], held: dict[str, Any]) -> _Parts:
    value = held["ann_val"]
    if value is not None:
        given = [*given, json.dumps(value) if isinstance(value, str) else _number(value)]
    return given, [held["ann_key"]]


def _split(given: list[Any], held: dict[str, Any]) -> _Parts:
    return given, [int(held.get("preserve_unit_iters", True)), int(held.get("disable_predication", False))]


_WRITERS: Mapping[str, tuple[str, _Write]] = {
    "get_block": ("GetBlock", lambda given, held: ([], [held["name"], held.get("func_name") or "main"])),
    "get_loops": ("GetLoops", _plain()),
    "get_child_blocks": ("GetChildBlocks", _plain()),
    "get_producers": ("GetProducers", _plain()),
    "get_consumers": ("GetConsumers", _plain()),
    "get_output_blocks": ("GetOutputBlocks", _plain()),
    "sample_categorical": ("SampleCategorical", _plain("candidates", "probs")),
    "sample_perfect_tile": ("SamplePerfectTile", _plain("n", "max_innermost_factor")),
    "sample_compute_location": ("SampleComputeLocation", _plain()),
    "split": ("Split", _split),
    "fuse": ("Fuse", lambda given, held: (given, [int(held.get("preserve_unit_iters", True))])),
    "reorder": ("Reorder", _plain()),
    "add_unit_loop": ("AddUnitLoop", _plain()),
    "parallel": ("Parallel", _plain()),
    "vectorize": ("Vectorize", _plain()),
    "unroll": ("Unroll", _plain()),
    "bind": ("Bind", lambda given, held: (given, [held["thread_axis"]])),
    "cache_read": ("CacheRead", _cached("read_buffer_index")),
    "cache_write": ("CacheWrite", _cached("write_buffer_index")),
    "compute_at": ("ComputeAt", _plain("preserve_unit_loops", "index")),
    "reverse_compute_at": ("ReverseComputeAt", _plain("preserve_unit_loops", "index")),
    "compute_inline": ("ComputeInline", _plain()),
    "reverse_compute_inline": ("ReverseComputeInline", _plain()),
    "decompose_reduction": ("DecomposeReduction", _plain()),
    "rfactor": ("RFactor", _plain("factor_axis")),
    "storage_align": ("StorageAlign", _plain("buffer_index", "axis", "factor", "offset")),
    "set_scope": ("SetScope", _plain("buffer_index", "storage_scope")),
    "annotate": ("Annotate", _annotated),
    "unannotate": ("Unannotate", _plain("ann_key")),
    "enter_postproc": ("EnterPostproc", _plain()),
}
"""The instruction of each primitive, and how its parts are written."""

INSTRUCTIONS = {name: prim for prim, (name, _) in _WRITERS.items()}
"""The primitive of each instruction that is written."""


def field_name(step: Step) -> str:
    """The instruction's name of a step; the primitive's where there is none."""
    written = _WRITERS.get(step.prim)
    return step.prim if written is None else written[0]


# ------------------------------------------------------------------------------------ reading


def play_field_json(sch: Schedule, trace: Any) -> None:
    """Take the steps of a trace of TVM's on `sch`. Raises FieldTraceError naming the step that is unknown, malformed or
    illegal here; those before it have been taken then."""
    match _read(trace) if isinstance(trace, str) else trace:
        case [[*steps], [*decided]] if len(steps) <= _MAX_STEPS:
            decisions = {_position(entry): entry[1] for entry in decided}
            player = _Player(sch)
            for at, step in enumerate(steps):
                player.one(step, decisions.get(at))
        case _:
            raise FieldTraceError("a trace is a list of its instructions and a list of its decisions")


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _position(entry: Any) -> int:
    match entry:
        case [int(at), _]:
            return at
    raise FieldTraceError(f"{str(entry)[:60]} is no decision of a trace")


class _Player:
    """Takes instructions on a schedule, and knows what the results of earlier ones are there."""

    def __init__(self, sch: Schedule) -> None:
        self._sch = sch
        self._values: dict[str, Any] = {}

    def one(self, step: Any, decision: Any) -> None:
        match step:
            case [str(name), [*inputs], [*attrs], [*outputs]]:
                self._one(name, inputs, attrs, outputs, decision)
            case _:
                raise FieldTraceError(f"{str(step)[:60]} is no instruction of a trace")

    def _one(self, name: str, inputs: list[Any], attrs: list[Any], outputs: list[Any], decision: Any) -> None:
        make = _STEPS.get(name.replace("SBlock", "Block"))
        if make is None:
            raise FieldTraceError(f"step {name} of the trace has no counterpart here")
        try:
            made = make(self._sch, [self._value(i) for i in inputs], attrs, decision)
        except ScheduleError as error:
            raise FieldTraceError(f"step {name} of the trace: {error.message}") from None
        except (IndexError, TypeError, ValueError) as error:
            raise FieldTraceError(f"step {name} of the trace is not as TVM writes it: {error}") from None
        results = [] if made is None else [made] if isinstance(made, RV) else list(made)
        if len(results) != len(outputs):
            raise FieldTraceError(f"step {name} of the trace gives {len(results)} results here, not {len(outputs)}")
        self._values.update(zip(map(str, outputs), results))

    def _value(self, given: Any) -> Any:
        """An input: the name of an earlier result, text in quotes of its own, or plain data."""
        match given:
            case str() if given in self._values:
                return self._values[given]
            case "None":
                return None
            case str() if given.startswith('"'):
                return json.loads(given)
            case str():
                raise FieldTraceError(f"the trace uses {given[:40]!r}, which no step before gave")
            case list():
                return [self._value(item) for item in given]
        return given


_Make = Callable[[Any, list[Any], list[Any], Any], Any]


def _take_split(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> Any:
    return sch.split(given[0], given[1:], preserve_unit_iters=bool(attrs[0]) if attrs else True)


def _fuse(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> Any:
    """One loop "fused" is that loop, which TVM lets be parallel already."""
    return given[0] if len(given) == 1 else sch.fuse(*given, preserve_unit_iters=bool(attrs[0]) if attrs else True)


def _parallel(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> None:
    if sch.get(given[0]).kind is not ForKind.PARALLEL:
        sch.parallel(given[0])


def _annotate(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> None:
    sch.annotate(given[0], str(attrs[0]), given[1])


def _categorical(sch: Schedule, given: list[Any], attrs: list[Any], decision: Any) -> Any:
    return sch.sample_categorical(attrs[0], attrs[1], decision)


def _perfect_tile(sch: Schedule, given: list[Any], attrs: list[Any], decision: Any) -> Any:
    return sch.sample_perfect_tile(given[0], attrs[0], attrs[1], decision)


def _cache_read(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> Any:
    return sch.cache_read(given[0], attrs[0], attrs[1], given[1] if len(given) > 1 else ())


def _cache_write(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> Any:
    if len(given) > 1 and given[1]:
        raise FieldTraceError("a cache_write for chosen readers has no counterpart here")
    return sch.cache_write(given[0], attrs[0], attrs[1])


def _compute_at(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> None:
    sch.compute_at(given[0], given[1], bool(attrs[0]), attrs[1] if len(attrs) > 1 else -1)


def _reverse_compute_at(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> None:
    sch.reverse_compute_at(given[0], given[1], bool(attrs[0]), attrs[1] if len(attrs) > 1 else -1)


_STEPS: dict[str, _Make] = {
    "GetBlock": lambda s, i, a, d: s.get_block(a[0]),
    "GetLoops": lambda s, i, a, d: s.get_loops(i[0]),
    "GetChildBlocks": lambda s, i, a, d: s.get_child_blocks(i[0]),
    "GetProducers": lambda s, i, a, d: s.get_producers(i[0]),
    "GetConsumers": lambda s, i, a, d: s.get_consumers(i[0]),
    "GetOutputBlocks": lambda s, i, a, d: s.get_output_blocks(i[0]),
    "SampleCategorical": _categorical,
    "SamplePerfectTile": _perfect_tile,
    "SampleComputeLocation": lambda s, i, a, d: s.sample_compute_location(i[0], d),
    "Split": _take_split,
    "Fuse": _fuse,
    "Reorder": lambda s, i, a, d: s.reorder(*i),
    "AddUnitLoop": lambda s, i, a, d: s.add_unit_loop(i[0]),
    "Bind": lambda s, i, a, d: s.bind(i[0], a[0]),
    "Parallel": _parallel,
    "Vectorize": lambda s, i, a, d: s.vectorize(i[0]),
    "Unroll": lambda s, i, a, d: s.unroll(i[0]),
    "CacheRead": _cache_read,
    "CacheWrite": _cache_write,
    "ReIndex": lambda s, i, a, d: s.reindex(i[0], ("write" if a[1] else "read", a[0])),
    "ComputeAt": _compute_at,
    "ReverseComputeAt": _reverse_compute_at,
    "ComputeInline": lambda s, i, a, d: s.compute_inline(i[0]),
    "ReverseComputeInline": lambda s, i, a, d: s.reverse_compute_inline(i[0]),
    "DecomposeReduction": lambda s, i, a, d: s.decompose_reduction(i[0], i[1]),
    "RFactor": lambda s, i, a, d: s.rfactor(i[0], a[0]),
    "Blockize": lambda s, i, a, d: s.blockize(i[0], bool(a[0]) if a else True),
    "StorageAlign": lambda s, i, a, d: s.storage_align(i[0], *a),
    "SetScope": lambda s, i, a, d: s.set_scope(i[0], *a),
    "Annotate": _annotate,
    "Unannotate": lambda s, i, a, d: s.unannotate(i[0], a[0]),
    "EnterPostproc": lambda s, i, a, d: s.enter_postproc(),
}
