"""The kinds of kernels that rules of default schedules tell apart."""

from __future__ import annotations

import enum

from compiler.relax.fusion.kernel_pattern import is_unscheduled, nests_of
from compiler.tir import nodes as n
from tuner.space.analysis import BlockInfo, blocks_of


class KernelKind(enum.Enum):
    """The kinds that have a rule."""

    MATMUL = enum.auto()
    GEMV = enum.auto()
    REDUCTION = enum.auto()
    GENERAL_REDUCTION = enum.auto()
    TRANSPOSE = enum.auto()
    OTHER = enum.auto()


def kind_of(func: n.PrimFunc) -> KernelKind | None:
    """The kind of a kernel; None for one that somebody scheduled, or that is not made of blocks alone.

        C[i, j] += A[i, k] * B[k, j]               MATMUL             each operand is used many times
        y[i] += A[i, k] * x[k]                     GEMV               one operand is used once
        s[i] += A[i, k]                            REDUCTION
        m[i] = max(A[i, k]); s[i] += exp(… - m)    GENERAL_REDUCTION  several of these
        B[j, i] = A[i, j]                          TRANSPOSE

    Elementwise work around it does not count. A kernel of symbolic shape is OTHER.
    """
    nests = nests_of(func)
    if nests is None or not all(map(is_unscheduled, nests)):
        return None
    blocks = blocks_of(func)
    if len(blocks) < len(nests):
        return KernelKind.OTHER
    reductions = [block for block in blocks if block.reduced]
    if not reductions:
        return KernelKind.TRANSPOSE if any(map(_turns, blocks)) else KernelKind.OTHER
    if len(reductions) > 1:
        return KernelKind.GENERAL_REDUCTION
    [block] = reductions
    return _product(block) if block.contraction else KernelKind.REDUCTION


def _product(block: BlockInfo) -> KernelKind:
    long = {axis.position for axis in block.spatial if axis.extent > 1}
    reads = [access for access in block.inputs if access.axes & {axis.position for axis in block.reduced}]
    if len(reads) < 2:
        return KernelKind.REDUCTION
    shared = [long - access.axes for access in reads]
    return KernelKind.MATMUL if all(shared) else KernelKind.GEMV


def _turns(block: BlockInfo) -> bool:
    """Whether neighbours of the result lie apart in what is read."""
    long = {axis.position for axis in block.axes if axis.extent > 1}
    written = [dim & long for dim in block.output.axes_by_dim if dim & long]
    if not written:
        return False
    last = written[-1]
    for access in block.inputs:
        dims = [dim & long for dim in access.axes_by_dim if dim & long]
        if dims and last <= frozenset().union(*dims) and not last & dims[-1]:
            return True
    return False
