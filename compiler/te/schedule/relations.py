"""The record of a stage: relations of its axes, annotations of each, where it is attached."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from compiler.ir.base import Span
from compiler.tir import ops
from compiler.tir.nodes import Cast, ForKind, IterType, IterVar, PrimExpr, StringImm

if TYPE_CHECKING:
    from compiler.te.tensor import Tensor
    from compiler.te.tensor_intrin import TensorIntrin


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """parent = outer * extent of inner + inner. Exactly one of `factor` (inner's extent) and `nparts`
    (outer's extent) is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: PrimExpr | None
    nparts: PrimExpr | None
    span: Span | None = field(default=None, repr=False)
    disable_predication: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Fuse:
    """fused = outer * extent of inner + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar
    span: Span | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Singleton:
    """An axis of extent 1 made by fusing nothing."""

    iter: IterVar
    span: Span | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Reorder:
    """The leaves `axes` take one another's places, in this order."""

    axes: tuple[IterVar, ...]
    span: Span | None = field(default=None, repr=False)


Relation = Split | Fuse | Singleton
Step = Split | Fuse | Singleton | Reorder


def axis_extents(roots: Iterable[IterVar], relations: Sequence[Relation]) -> dict[IterVar, PrimExpr]:
    """The extent of every axis: the operation's own (`roots`) and those derived from them."""
    extents = {axis: axis.dom.extent for axis in roots if axis.dom is not None}
    for relation in relations:
        match relation:
            case Split():
                extent = extents[relation.parent]
                if relation.factor is not None:
                    extents[relation.inner] = _of_dtype(relation.factor, extent.dtype)
                    extents[relation.outer] = ops.ceildiv(extent, relation.factor)
                else:
                    assert relation.nparts is not None
                    extents[relation.outer] = _of_dtype(relation.nparts, extent.dtype)
                    extents[relation.inner] = ops.ceildiv(extent, relation.nparts)
            case Fuse():
                extents[relation.fused] = extents[relation.outer] * extents[relation.inner]
            case Singleton():
                extents[relation.iter] = ops.const(1)
            case _:
                assert_never(relation)
    return extents


def _of_dtype(size: PrimExpr, dtype: str) -> PrimExpr:
    value = ops.as_int(size)
    if value is not None:
        return ops.const(value, dtype)
    return size if size.dtype == dtype else Cast(dtype, size)


# ------------------------------------------------------------------------ what axes become


@dataclass(frozen=True, slots=True)
class IterVarAttr:
    """The annotation of one leaf axis's loop. `span` is the user's line that set it last.

    `iter_type` is DATA_PAR (nothing special), VECTORIZED, UNROLLED, PARALLELIZED or TENSORIZED. `pragmas` are (key,
    value) pairs for the code generator.
    """

    iter_type: IterType = IterType.DATA_PAR
    bind_thread: IterVar | None = None
    pragmas: tuple[tuple[str, PrimExpr | None], ...] = field(default=())
    tensor_intrin: TensorIntrin | None = None
    span: Span | None = field(default=None, repr=False)

    @property
    def pragma_keys(self) -> tuple[StringImm, ...]:
        return tuple(StringImm(key) for key, _ in self.pragmas)

    @property
    def pragma_values(self) -> tuple[PrimExpr | None, ...]:
        return tuple(value for _, value in self.pragmas)

    @property
    def for_type(self) -> ForKind:
        """The kind of the loop."""
        return ForKind.THREAD_BINDING if self.bind_thread is not None else self.iter_type.for_kind


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeafAxis(IterVar):
    """A leaf axis after scheduling.
    It equals `origin` (same variable), and `attr` says how its loop runs. The axes of an operation have no such record,
    because it may have several schedules."""

    origin: IterVar | None = None
    attr: IterVarAttr = field(default_factory=IterVarAttr)

    @property
    def for_type(self) -> ForKind:
        return self.attr.for_type

    def __hash__(self) -> int:
        return hash(self.origin)


def shown_leaf(axis: IterVar, attr: IterVarAttr | None) -> IterVar:
    """Return `axis` as a stage shows it, with what `attr` records about its loop."""
    if attr is None:
        return axis
    tag = axis.thread_tag if attr.bind_thread is None else attr.bind_thread.thread_tag
    return LeafAxis(axis.dom, axis.var, axis.iter_type, tag, axis.span, axis, attr)


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """Ask memory for what `tensor`'s readers will need `offset` iterations of the loop of `axis` later."""

    tensor: Tensor
    axis: IterVar
    offset: int
    span: Span | None = field(default=None, repr=False)


class AttachType(enum.IntEnum):
    """Where a stage is computed; the numbers are TVM's."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5
