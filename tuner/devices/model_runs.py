"""A whole model run on a device: its end-to-end times, and those of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from compiler.artifact import PREPACKED
from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.core.fill import random_values
from compiler.runtime.core.ndarray import array
from compiler.runtime.measure.report import Report
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.signature import Interface
from rpc_server.client.session import RPCSession

ENTRY = "main"


@dataclass(frozen=True)
class ModelTimes:
    """Seconds of whole runs, and of each kernel in one run: all its calls together, by its name."""

    samples: tuple[float, ...]
    kernels: Mapping[str, float]


@runtime_checkable
class RunsModels(Protocol):
    """A device session that can run whole models, too."""

    def run_model(self, path: Path, device_type: str, repeat: int, min_repeat_ms: int) -> ModelTimes:
        """Time a built model, see `time_model`."""


def time_model(session: RPCSession, path: Path, device_type: str, repeat: int, min_repeat_ms: int) -> ModelTimes:
    """Time a built model on random inputs.

    Raises ArgumentError for one whose inputs' sizes are open, ArtifactError where the device cannot load it, and
    RPCError when the device is lost.
    """
    session.upload(path)
    device = session.device(device_type)
    machine = VirtualMachine(session.load_module(path.name), device)
    values = _inputs(machine.interface(ENTRY), device)
    evaluate = machine.time_evaluator(ENTRY, device, number=1, repeat=repeat, min_repeat_ms=min_repeat_ms)
    samples = tuple(evaluate(*values).results)
    return ModelTimes(samples, kernel_seconds(machine.profile(ENTRY, *values)))


def kernel_seconds(report: Report) -> dict[str, float]:
    """Return the time of each kernel of a run, by its name in the model.
    That is its name also where its weights are packed ahead of time."""
    found: dict[str, float] = {}
    for call in report.calls:
        name, took = str(call["Name"]).removesuffix(PREPACKED), call["Duration (us)"]
        found[name] = found.get(name, 0.0) + float(getattr(took, "microseconds", 0.0)) * 1e-6
    return found


def _inputs(interface: Interface, device: Device) -> list[Any]:
    rng = np.random.default_rng(0)
    values = []
    for param in interface.params:
        shape = param.shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise ArgumentError(f"the input {param.name!r} has symbolic sizes", hint="fix them in the model's file")
        values.append(array(random_values([int(size) for size in shape], param.dtype, rng), device))
    return values
