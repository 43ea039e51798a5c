"""This machine's measured peaks: arithmetic and memory, with as many threads as parallel loops use."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core import native
from compiler.target.cpu_features import host_cpu
from compiler.target.target import Target

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_ACCUMULATORS = 12  # enough to keep two units of four cycles busy
_ROUNDS = 200_000
_BYTES = 64 << 20
_RUNS = 15  # other work on the machine disturbs some of them
_ROWS_A_TASK = 1 << 20


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most float32 operations, and bytes of memory, per second of a machine.

    Raises ArgumentError for numbers that are not positive.
    """

    flops: float
    bytes: float

    def __post_init__(self) -> None:
        if not (self.flops > 0 and self.bytes > 0):
            raise ArgumentError(f"a machine's peaks are positive, not {self.flops} and {self.bytes}")

    def seconds(self, flops: float, nbytes: float) -> float:
        """Return the least time for so much work, by the roofline model."""
        return max(flops / self.flops, nbytes / self.bytes)


@cache
def measured_peaks(threads: int | None = None) -> Peaks:
    """Measure this machine for about a tenth of a second for each number of threads.
    By default that is the number set now."""
    count = native.threads() if threads is None else threads
    lanes = max(4, Target.host().vector_bits // 32)
    engine = _compiled(lanes)
    arithmetic, reading = (engine.get_function_address(name) for name in ("peak_arithmetic", "peak_reading"))
    data = np.ones(_BYTES // 4, np.float32)
    context = (ctypes.c_int64 * 2)(data.ctypes.data, 0)
    run = native.load().parallel_for
    fastest = _fastest(lambda: run(arithmetic, ctypes.addressof(context), count))
    tasks = _BYTES // _ROWS_A_TASK
    soonest = _fastest(lambda: run(reading, ctypes.addressof(context), tasks))
    return Peaks(2.0 * lanes * _ACCUMULATORS * _ROUNDS * count / fastest, _BYTES / soonest)


def _fastest(run: object) -> float:
    assert callable(run)
    best = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best


def _compiled(lanes: int) -> llvm.ExecutionEngine:
    import llvmlite.binding as llvm

    native.target_machine()  # initialises LLVM
    cpu = host_cpu()
    features = ",".join(f"+{name}" for name in sorted(cpu.features))
    target = llvm.Target.from_triple(cpu.triple)
    machine = target.create_target_machine(cpu=cpu.name, features=features, opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_text(lanes)), machine)
    engine.finalize_object()
    return engine


def _text(lanes: int) -> str:
    """Two loops as tasks of the thread pool.
    One has fused multiplications and additions, the other adds up memory."""
    vector = f"<{lanes} x float>"
    sums = range(_ACCUMULATORS)
    phis = "\n".join(f"  %a{i} = phi {vector} [ splat (float {float(i)}), %entry ], [ %n{i}, %loop ]" for i in sums)
    steps = "\n".join(
        f"  %n{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %x, {vector} %x)" for i in sums
    )
    adds = ["  %t0 = fadd " + vector + " %n0, %n0"]
    adds += [f"  %t{i} = fadd {vector} %t{i - 1}, %n{i}" for i in range(1, _ACCUMULATORS)]
    unrolled = 8
    loads = "\n".join(
        f"  %p{i} = getelementptr {vector}, ptr %from, i64 {i}\n"
        f"  %v{i} = load {vector}, ptr %p{i}, align 4\n"
        f"  %s{i} = fadd {vector} %r{i}, %v{i}"
        for i in range(unrolled)
    )
    carried = "\n".join(
        f"  %r{i} = phi {vector} [ zeroinitializer, %entry ], [ %s{i}, %loop ]" for i in range(unrolled)
    )
    total = ["  %u0 = fadd " + vector + " %s0, %s0"]
    total += [f"  %u{i} = fadd {vector} %u{i - 1}, %s{i}" for i in range(1, unrolled)]
    step = unrolled * lanes * 4
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
@sink = internal global {vector} zeroinitializer
define void @peak_arithmetic(i64 %task, ptr %context) {{
entry:
  %number = load i64, ptr %context
  %small = and i64 %number, 1
  %one = sitofp i64 %small to float
  %first = insertelement {vector} poison, float %one, i64 0
  %x = shufflevector {vector} %first, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {_ROUNDS}
  br i1 %more, label %loop, label %done
done:
{chr(10).join(adds)}
  store volatile {vector} %t{_ACCUMULATORS - 1}, ptr @sink
  ret void
}}
define void @peak_reading(i64 %task, ptr %context) {{
entry:
  %base = load ptr, ptr %context
  %begin = mul i64 %task, {_ROWS_A_TASK}
  %start = getelementptr i8, ptr %base, i64 %begin
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
{carried}
  %from = getelementptr i8, ptr %start, i64 %at
{loads}
  %next = add i64 %at, {step}
  %more = icmp slt i64 %next, {_ROWS_A_TASK}
  br i1 %more, label %loop, label %done
done:
{chr(10).join(total)}
  store volatile {vector} %u{unrolled - 1}, ptr @sink
  ret void
}}
"""
