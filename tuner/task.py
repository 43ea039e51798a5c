"""A tuning task: one function on one target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.text.print_func import workload_key
from tuner.rounding import Rounding, rounding
from tuner.workloads import WorkloadSpec


@dataclass(frozen=True)
class TuningTask:
    """A function to tune: `func` is unscheduled TensorIR.

    `spec` says how to make it again if it came from a named workload. `operations` are those of a call, if the
    function does not show them because it stands for a kernel in another language. `baseline` is what times are
    compared with, if that is a library of the user's instead of the function as written.
    """

    name: str
    func: n.PrimFunc
    target: Target
    spec: WorkloadSpec | None = None
    operations: float | None = None
    baseline: str = ""

    @staticmethod
    def from_spec(spec: WorkloadSpec | str, target: Target | str) -> TuningTask:
        """The task for a named workload. Raises WorkloadError or TargetError."""
        parsed = WorkloadSpec.parse(spec) if isinstance(spec, str) else spec
        resolved = Target(target) if isinstance(target, str) else target
        return TuningTask(str(parsed), parsed.prim_func(), resolved, parsed)

    @cached_property
    def key(self) -> str:
        """The workload key: equal for functions equal up to names."""
        return workload_key(self.func)

    @cached_property
    def flops(self) -> float:
        return count_flops(self.func) if self.operations is None else self.operations

    @property
    def threads(self) -> int:
        """How many a kernel of it may use; 1 on a GPU."""
        return max(1, self.target.num_cores or 1)

    @property
    def weights(self) -> tuple[int, ...]:
        """Positions of the arguments that are the same at every call: weights of a model."""
        noted = self.func.attrs.get(LAYOUT_FREE) or ()
        return tuple(at for at in noted if isinstance(at, int) and 0 <= at < len(self.func.params))

    @cached_property
    def rounding(self) -> Rounding:
        return rounding(self.func)


def argument_bytes(func: n.PrimFunc) -> int | None:
    """Bytes of all arguments, which any implementation moves at least once. None for symbolic shapes."""
    total = 0
    for buffer in func.buffer_map.values():
        extents = [as_int(extent) for extent in buffer.shape]
        if None in extents:
            return None
        total += parse_dtype(buffer.dtype).bytes * math.prod(e for e in extents if e is not None)
    return total or None


_FLOP_NODES = (n.Add, n.Sub, n.Mul, n.Div, n.Min, n.Max)


def count_flops(func: n.PrimFunc) -> float:
    """Arithmetic operations of one call, from the blocks' bodies times their iteration domains.

    Counts add, sub, mul, div, min, max on the data (not on indices); an intrinsic counts as one. A symbolic
    dimension counts as 1.
    """
    total = 0.0
    for node in walk(func.body):
        if isinstance(node, n.Block) and node.iter_vars:
            points = math.prod(_extent(iv) for iv in node.iter_vars)
            total += points * sum(value_ops(s.value) for s in walk(node.body) if isinstance(s, n.BufferStore))
    return total


def _extent(iv: n.IterVar) -> int:
    extent = None if iv.dom is None else as_int(iv.dom.extent)
    return 1 if extent is None else extent


def value_ops(expr: n.PrimExpr) -> int:
    """Operations on values in `expr`, not descending into indices or conditions."""
    match expr:
        case n.BufferLoad():
            return 0
        case n.BinaryOp(a, b) if isinstance(expr, _FLOP_NODES):
            return parse_dtype(expr.dtype).lanes + value_ops(a) + value_ops(b)
        case n.Cast(_, value) | n.Broadcast(value):
            return value_ops(value)
        case n.Select(_, t, f):
            return max(value_ops(t), value_ops(f))
        case n.Call(_, op, args) if getattr(op, "name", "") == "tir.if_then_else":
            return max(value_ops(args[1]), value_ops(args[2]))
        case n.Call(_, _, args):
            return 1 + sum(value_ops(a) for a in args)
    return 0
