"""Traces of Apache TVM's schedules, carried out on ours: the same steps by the same names, the same decisions.

The result is a trace of our own. A step that has no counterpart here ends it with a ForeignError that names the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.core.rv import RV
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import ForKind, PrimFunc
from tuner.interchange.tvm_graph import ForeignError

_MAX_STEPS = 20_000


def replay(func: PrimFunc, trace: Any) -> Schedule:
    """`func` scheduled as `trace` (TVM's `Trace.as_json()`: instructions and decisions) says.

    Raises ForeignError naming the step that is unknown, malformed or illegal here.
    """
    match trace:
        case [[*steps], [*decided]] if len(steps) <= _MAX_STEPS:
            decisions = {_position(entry): entry[1] for entry in decided}
            return _Replay(func).all(steps, decisions)
    raise ForeignError("a trace is a list of its instructions and a list of its decisions")


def _position(entry: Any) -> int:
    match entry:
        case [int(at), _]:
            return at
    raise ForeignError(f"{str(entry)[:60]} is no decision of a trace")


class _Replay:
    def __init__(self, func: PrimFunc) -> None:
        self._sch = Schedule(func, seed=0)
        self._values: dict[str, Any] = {}

    def all(self, steps: Sequence[Any], decisions: dict[int, Any]) -> Schedule:
        for at, step in enumerate(steps):
            match step:
                case [str(name), [*inputs], [*attrs], [*outputs]]:
                    self._one(name, inputs, attrs, outputs, decisions.get(at))
                case _:
                    raise ForeignError(f"{str(step)[:60]} is no instruction of a trace")
        return self._sch

    def _one(self, name: str, inputs: list[Any], attrs: list[Any], outputs: list[Any], decision: Any) -> None:
        make = _STEPS.get(name.replace("SBlock", "Block"))
        if make is None:
            raise ForeignError(f"step {name} of the trace has no counterpart here")
        try:
            made = make(self._sch, [self._value(i) for i in inputs], attrs, decision)
        except ScheduleError as error:
            raise ForeignError(f"step {name} of the trace: {error.message}") from None
        except (IndexError, TypeError, ValueError) as error:
            raise ForeignError(f"step {name} of the trace is not as TVM writes it: {error}") from None
        results = [] if made is None else [made] if isinstance(made, RV) else list(made)
        if len(results) != len(outputs):
            raise ForeignError(f"step {name} of the trace gives {len(results)} results here, not {len(outputs)}")
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
                raise ForeignError(f"the trace uses {given[:40]!r}, which no step before gave")
            case list():
                return [self._value(item) for item in given]
        return given


_Make = Callable[[Schedule, list[Any], list[Any], Any], Any]


def _split(sch: Schedule, given: list[Any], attrs: list[Any], _: Any) -> Any:
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
        raise ForeignError("a cache_write for chosen readers has no counterpart here")
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
    "Split": _split,
    "Fuse": _fuse,
    "Reorder": lambda s, i, a, d: s.reorder(*i),
    "AddUnitLoop": lambda s, i, a, d: s.add_unit_loop(i[0]),
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
