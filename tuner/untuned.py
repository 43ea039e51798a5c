"""Unscheduled functions: what candidates are compared with, and what is built without any record."""

from __future__ import annotations

from compiler.artifact import Artifact
from compiler.driver.backend import backend_of
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc


def runnable(func: PrimFunc, target: Target) -> PrimFunc:
    """Return `func` so that it can be built for `target`.
    On a GPU it gets a thread for each result; on a CPU it is unchanged."""
    return backend_of(target).default_schedule(func)


def device_type(artifact: Artifact) -> str:
    """Return the kind of device that runs an artifact."""
    return Target(artifact.target).device_type
