"""The values of knobs: what is done to loops, as data that goes into a record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.te.operation import thread_axis
from compiler.te.schedule.schedule import Schedule
from compiler.tir.nodes import IterVar
from tuner.faces.autotvm.errors import AutotvmRecordError, ConfigError

_THREADS = ("blockIdx", "threadIdx", "vthread")


class ErrorSink(Protocol):
    """A config, which an entity tells that it cannot be applied."""

    def raise_error(self, msg: str) -> None: ...


@dataclass(frozen=True)
class SplitEntity:
    """The lengths of the loops that an axis becomes, from the outermost in; -1 is whatever is left."""

    size: list[int]

    def __init__(self, size: Iterable[int]) -> None:
        object.__setattr__(self, "size", [int(s) for s in size])

    def apply(self, sch: Schedule, op: Any, axis: IterVar) -> list[IterVar]:
        """Split `axis` of the stage of `op`; returns the loops, from the outermost in."""
        loops = []
        for position in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, factor=math.prod(self.size[position:]))
            loops.append(outer)
        return [*loops, axis]

    def to_json(self) -> list[Any]:
        return ["sp", self.size]

    def __hash__(self) -> int:
        return hash(tuple(self.size))

    def __repr__(self) -> str:
        return str(self.size)


@dataclass(frozen=True)
class ReorderEntity:
    """The order of loops: position i holds the loop that was given `perm[i]`-th."""

    perm: list[int]

    def __init__(self, perm: Iterable[int]) -> None:
        object.__setattr__(self, "perm", [int(p) for p in perm])

    def apply(self, sch: Schedule, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        """Reorder `axes` of the stage of `op`; returns them in their new order.
        Raises ConfigError unless they are as many as the space was defined over."""
        if len(axes) != len(self.perm):
            raise ConfigError(f"the reorder was defined over {len(self.perm)} axes, it is applied to {len(axes)}")
        order = [axes[at] for at in self.perm]
        sch[op].reorder(*order)
        return order

    def to_json(self) -> list[Any]:
        return ["re", self.perm]

    def __hash__(self) -> int:
        return hash(tuple(self.perm))

    def __repr__(self) -> str:
        return str(self.perm)


@dataclass(frozen=True)
class AnnotateEntity:
    """Each loop's annotation.
    It is none, unroll, vec, try_unroll, try_vec, parallel, a thread's name, locate_cache, or fuse: with the next."""

    anns: list[str]

    def __init__(self, anns: Iterable[str]) -> None:
        object.__setattr__(self, "anns", [str(a) for a in anns])

    def apply(
        self, sch: Schedule, op: Any, axes: Sequence[IterVar], axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None, vec_size: Sequence[int] | None = None, cfg: ErrorSink | None = None,
        source: Any = None,
    ) -> list[IterVar]:  # fmt: skip
        """Annotate `axes` of the stage of `op`.

        With `axis_lens`, a loop longer than `max_unroll` is not unrolled and one of a length outside `vec_size` not
        vectorised. `cfg` is told when it had to be, not when it was only to be tried. `source` is the tensor that
        locate_cache computes there. Returns the axes, fused ones as one.
        """
        axes = list(axes)
        if len(axes) != len(self.anns):
            raise ConfigError(f"the annotation was defined over {len(self.anns)} axes, it is applied to {len(axes)}")
        fused = 0
        for at, ann in enumerate(self.anns):
            axis = axes[at]
            length = None if axis_lens is None else axis_lens[at]
            match ann:
                case "none" | "":
                    pass
                case "unroll" | "try_unroll":
                    if length is None or max_unroll is None or length <= max_unroll:
                        sch[op].unroll(axis)
                    elif ann == "unroll" and cfg is not None:
                        cfg.raise_error(f"too long to unroll: {length}")
                case "vec" | "try_vec":
                    if length is None or vec_size is None or length in vec_size:
                        sch[op].vectorize(axis)
                    elif ann == "vec" and cfg is not None:
                        cfg.raise_error(f"no vector has {length} lanes here")
                case "parallel":
                    sch[op].parallel(axis)
                case "fuse":
                    axes[at + 1] = sch[op].fuse(axis, axes[at + 1])
                    fused = at + 1
                case "locate_cache":
                    sch[source].compute_at(sch[op], axis)
                case _ if ann.split(".")[0] in _THREADS:
                    sch[op].bind(axis, thread_axis(ann))
                case _:
                    raise ConfigError(f"no annotation is called {ann!r}")
        return axes[fused:]

    def to_json(self) -> list[Any]:
        return ["an", self.anns]

    def __hash__(self) -> int:
        return hash(tuple(self.anns))

    def __repr__(self) -> str:
        return str(self.anns)


@dataclass(frozen=True)
class OtherOptionEntity:
    """Any value that JSON can hold."""

    val: Any

    def to_json(self) -> list[Any]:
        return ["ot", self.val]

    def __hash__(self) -> int:
        return hash(repr(self.val))

    def __repr__(self) -> str:
        return str(self.val)


Entity = SplitEntity | ReorderEntity | AnnotateEntity | OtherOptionEntity


def entity_from_json(kind: str, data: Any) -> Entity:
    """The inverse of an entity's `to_json`. Raises RecordError for anything else."""
    match kind, data:
        case "sp", [*size] if all(isinstance(s, int) for s in size):
            return SplitEntity(size)
        case "re", [*perm] if sorted(perm) == list(range(len(perm))):
            return ReorderEntity(perm)
        case "an", [*anns] if all(isinstance(a, str) for a in anns):
            return AnnotateEntity(anns)
        case "ot", _:
            return OtherOptionEntity(data)
    raise AutotvmRecordError(f"not the value of a knob: {kind!r} with {data!r}")
