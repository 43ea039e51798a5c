"""Devices whose times of whole models are made up."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tuner.devices.model_runs import ModelTimes


class SlowerThanTheFirst:
    """A fleet of one device, on which a model takes a fifth longer, and so does each of its kernels, when it is not the
    one that came first: the untuned one."""

    def __init__(self, kernels: Collection[str]) -> None:
        self._kernels = kernels
        self._first: bytes | None = None
        self.runs = 0

    def open(self, slot: int, wait_s: float) -> SlowerThanTheFirst:
        return self

    def close(self) -> None:
        """Do nothing: it is its own session."""

    def run_model(self, path: Path, device_type: str, repeat: int, min_repeat_ms: int) -> ModelTimes:
        self.runs += 1
        content = path.read_bytes()
        self._first = self._first or content
        slower = 1.0 if content == self._first else 1.2
        return ModelTimes((slower * 1e-3,) * repeat, dict.fromkeys(self._kernels, slower * 1e-4))

    def measure(self, request: Any, artifacts: Any) -> Any:
        raise NotImplementedError("kernels are not measured on it")

    def device(self) -> Any:
        raise NotImplementedError("it is no device of a farm")

    def label(self) -> str:
        return "made up"

    def target(self) -> str:
        return "llvm"

    def count(self) -> int:
        return 1
