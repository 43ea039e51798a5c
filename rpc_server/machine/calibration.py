"""The process that a health check runs: `python -m rpc_server.machine.calibration SETTINGS`.

It runs two small kernels (calibration.ll), one bound by arithmetic and one by memory, checks that their results are
exactly right, and prints a `Calibration` as JSON. The arithmetic one runs on every core the process may use, so that
one faulty core is found. Speeds are the best of many short runs, which other work on the machine hardly touches.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import llvmlite.binding as llvm
import msgspec

from compiler.runtime.core import native
from rpc_server.isolation.limits import become, die_with_parent, ids_of, limit_resources, tasks_of

_LANES = 16
_ROUNDS = 400_001  # odd: x * -1 + c gives c - x after an odd number of rounds, and any error on the way stays
_LEAST_RUNS = 24
_DOUBLES = 4 << 20  # of each of three arrays: together more than most caches hold
_TRIADS = 6
_FACTOR = 3.0
_MEMORY = 512 << 20
_FILE = 64 << 20
_TASKS = 1024


class CalibrationSettings(msgspec.Struct, frozen=True):
    """`user` is whom to become when started as root; `cpus` the cores to use; empty: every allowed one."""

    parent: int
    user: str = ""
    cpus: tuple[int, ...] = ()


class Calibration(msgspec.Struct, frozen=True):
    """GFLOP/s of one core and GB/s, or what came out `wrong`."""

    compute: float = 0.0
    memory: float = 0.0
    wrong: str = ""


class _Kernels:
    """The functions of calibration.ll, compiled for this machine."""

    def __init__(self) -> None:
        text = files("rpc_server.machine").joinpath("calibration.ll").read_text("utf-8")
        module = llvm.parse_assembly(text)
        machine = native.target_machine(opt=2)
        module.triple = machine.triple
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        pointer, double, i64 = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64
        self.compute = self._function("compute", None, pointer, double, double, i64)
        self.fill = self._function("fill", None, pointer, i64)
        self.triad = self._function("triad", None, pointer, pointer, pointer, double, i64)
        self.total = self._function("total", double, pointer, i64)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self._engine.get_function_address(name))


def calibrate() -> Calibration:
    """Run both kernels here, now. Raises OSError when there is too little memory."""
    kernels = _Kernels()
    compute, wrong = _compute(kernels)
    if wrong:
        return Calibration(wrong=wrong)
    memory, wrong = _memory(kernels)
    return Calibration(compute, memory, wrong)


def _compute(kernels: _Kernels) -> tuple[float, str]:
    """The best GFLOP/s over all cores, and the first wrong result."""
    cores = sorted(os.sched_getaffinity(0))
    runs = max(2, -(-_LEAST_RUNS // len(cores)))
    buffer, address = _map(mmap.PAGESIZE)
    state = (ctypes.c_double * _LANES).from_buffer(buffer)
    best = float("inf")
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            for run in range(runs):
                c = float(core + run + 1)
                state[:] = [float(lane) for lane in range(_LANES)]
                best = min(best, _seconds(partial(kernels.compute, address, -1.0, c, _ROUNDS)))
                if list(state) != [c - lane for lane in range(_LANES)]:
                    return 0.0, f"core {core} computed something wrong"
    finally:
        os.sched_setaffinity(0, set(cores))
    return 2e-9 * _LANES * _ROUNDS / best, ""


def _memory(kernels: _Kernels) -> tuple[float, str]:
    """The best GB/s, and what was wrong."""
    arrays = [_map(8 * _DOUBLES) for _ in range(3)]
    a, b, c = (address for _, address in arrays)
    kernels.fill(b, _DOUBLES)
    kernels.fill(c, _DOUBLES)
    best = min(_seconds(partial(kernels.triad, a, b, c, _FACTOR, _DOUBLES)) for _ in range(_TRIADS))
    want = (1.0 + _FACTOR) * (_DOUBLES // 1024) * (1023 * 1024 // 2)
    got = kernels.total(a, _DOUBLES)
    return 24e-9 * _DOUBLES / best, "" if got == want else f"memory gave back the sum {got:.17g}, not {want:.17g}"


def _map(size: int) -> tuple[mmap.mmap, int]:
    """Fresh memory on a page of its own, and its address."""
    buffer = mmap.mmap(-1, size)
    return buffer, ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(text: str) -> int:
    settings = msgspec.json.decode(text, type=CalibrationSettings)
    die_with_parent(settings.parent)
    files = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    user = ids_of(settings.user)[0] if settings.user else os.geteuid()
    limit_resources(_MEMORY, files, settings.cpus, _FILE, _TASKS + tasks_of(user))
    if settings.user:
        become(*ids_of(settings.user))
        die_with_parent(settings.parent)  # changing the user forgot it
    try:
        found = calibrate()
    except OSError as error:
        found = Calibration(wrong=f"no memory for the check: {error.strerror or error}")
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
