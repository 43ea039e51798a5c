"""Checks of GPU code that need no GPU: the interpreter's race check, and ptxas where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.codegen.nvptx import ptxas
from compiler.driver.build import compile_artifact, lower
from compiler.interp import threads as interp_threads
from compiler.ir.module import IRModule
from compiler.lower.gpu.inject_barriers import inject_barriers

PTXAS = ptxas.find_ptxas()


def run_threads(module: IRModule, *arrays: np.ndarray[Any, Any]) -> None:
    """Run a lowered module's function with barriers, its threads in lock step. Raises RaceError, DivergentBarrier."""
    [(_, func)] = module.items()
    interp_threads.run(inject_barriers(func), *arrays)


def assemble(ptx: bytes, arch: str) -> str:
    """Return what ptxas says about the kernels; fail when it refuses them. Without ptxas, check nothing."""
    return "" if PTXAS is None else ptxas.assemble(PTXAS, ptx, arch)


def check(schedule: Any, args: list[Any], arrays: list[np.ndarray[Any, Any]], arch: str = "sm_80") -> IRModule:
    """Run a te schedule's threads on arrays (the outputs last), and assemble its PTX. Returns the lowered module."""
    module = lower(schedule, args, name="kernel")
    run_threads(module, *arrays)
    assemble(compile_artifact(module, f"cuda -arch={arch}").blobs["ptx"], arch)
    return module
