"""Functions that build workers call by name: each is a build that goes right or wrong in its own way."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir.nodes import PrimFunc

TARGET = str(Target.host())


def add_one() -> PrimFunc:
    a = placeholder((16,), name="a")
    return create_prim_func([a, compute((16,), lambda i: a[i] + 1.0, name="b")])


def finished() -> Artifact:
    return compile_artifact(add_one(), Target(TARGET), name="main")


def slow() -> PrimFunc:
    time.sleep(60)
    return add_one()


def stuck() -> PrimFunc:
    """Like a loop inside LLVM: no Python signal handler runs."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(60)
    return add_one()


def greedy() -> PrimFunc:
    bytearray(1 << 40)
    return add_one()


def dying() -> PrimFunc:
    os.abort()


def leaving() -> PrimFunc:
    os._exit(3)


def buggy() -> PrimFunc:
    raise ZeroDivisionError("my own mistake")


def collections() -> PrimFunc:
    raise RuntimeError(f"objects before it is collected: {gc.get_threshold()[0]}")


def gated(folder: Path) -> PrimFunc:
    """Leaves a file when it begins, then waits for the file `open`."""
    begun = folder / f"begun-{os.getpid()}"
    begun.touch()
    while not (folder / "open").exists():
        time.sleep(0.05)
    return add_one()


def asked(variable: str) -> PrimFunc:
    """Says what the worker's environment has, and which process it is of whose."""
    raise ValueError(f"{variable} is {os.environ.get(variable)}, process {os.getpid()}, parent {os.getppid()}.")
