"""Functions as nobody scheduled them: what candidates are compared with, and what is built where nothing is known."""

from __future__ import annotations

from compiler.artifact import Artifact
from compiler.schedule.default_gpu import default_gpu_schedule
from compiler.target import Target
from compiler.tir.nodes import PrimFunc


def runnable(func: PrimFunc, target: Target) -> PrimFunc:
    """`func` so that it can be built for `target`: on a GPU a thread for each result, on a CPU as it is."""
    return default_gpu_schedule(func) if target.device_type == "cuda" else func


def device_type(artifact: Artifact) -> str:
    """The kind of device that runs an artifact."""
    return Target(artifact.target).device_type
