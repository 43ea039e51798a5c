"""What a stage records: how axes follow from one another, what is done with each, where it is attached."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from compiler.tir.nodes import IterType, IterVar, PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """parent = outer * extent of inner + inner. Exactly one of `factor` (inner's extent) and `nparts`
    (outer's extent) is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: int | None
    nparts: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Fuse:
    """fused = outer * extent of inner + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(frozen=True, slots=True, eq=False)
class Singleton:
    """An axis of extent 1 made by fusing nothing."""

    iter: IterVar


@dataclass(frozen=True, slots=True, eq=False)
class Reorder:
    """The leaves `axes` take one another's places, in this order."""

    axes: tuple[IterVar, ...]


Relation = Split | Fuse | Singleton
Step = Split | Fuse | Singleton | Reorder


@dataclass(frozen=True, slots=True)
class IterVarAttr:
    """What becomes of the loop of one leaf axis.

    `iter_type` is DATA_PAR (nothing special), VECTORIZED, UNROLLED, PARALLELIZED or TENSORIZED.
    `pragmas` are (key, value) pairs for the code generator.
    """

    iter_type: IterType = IterType.DATA_PAR
    bind_thread: IterVar | None = None
    pragmas: tuple[tuple[str, PrimExpr | None], ...] = field(default=())

    @property
    def pragma_keys(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.pragmas)

    @property
    def pragma_values(self) -> tuple[PrimExpr | None, ...]:
        return tuple(value for _, value in self.pragmas)


class AttachType(enum.IntEnum):
    """Where a stage is computed; the numbers are the field's."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5
