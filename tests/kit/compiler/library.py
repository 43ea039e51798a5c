"""Kernels to be put into libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import array, empty
from compiler.te.operation import compute, placeholder
from compiler.te.schedule.schedule import create_schedule
from compiler.tir.intrin.intrin import call_extern

needs_cc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
KINDS = [pytest.param("so", marks=needs_cc), "tar", "tunefarm"]


def build(factor: int = 2, name: str = "scale", target: str = "llvm") -> Module:
    """A kernel with a parallel loop: B = A * factor, of 256 numbers."""
    a = placeholder((256,), name="A")
    b = compute((256,), lambda i: a[i] * factor, name="B")
    schedule = create_schedule(b.op)
    schedule[b].parallel(b.op.axis[0])
    return driver.build(schedule, [a, b], target=target, name=name)


def build_calling(function: str) -> Module:
    """A kernel "scale" that calls a C function of that name, `float f(float)`, for each of 256 numbers."""
    a = placeholder((256,), name="A")
    b = compute((256,), lambda i: call_extern("float32", function, a[i]), name="B")
    return driver.build(create_schedule(b.op), [a, b], target="llvm", name="scale")


def check(module: Module, name: str = "scale", factor: int = 2) -> None:
    a, b = array(np.arange(256, dtype="float32")), empty((256,))
    module.get_function(name, query_imports=True)(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(256) * factor)


def compile_c(folder: Path, code: str, name: str = "extra") -> str:
    """The path of an object file."""
    source, output = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(code)
    subprocess.run(["gcc", "-c", "-fPIC", str(source), "-o", str(output)], check=True)
    return str(output)
