"""Benchmark suites: which kernels, at which configs. Built in, or from a TOML file.

    name = "ours"
    kernels = ["matmul:512,512,512", "conv2d:1,64,56,56,64,3,3"]
    models = ["resnet.onnx"]
    config = "best"

`models` are files beside the suite's. `config` is "best" (the store's best config for the device; untuned without
one) or "untuned". Untuned kernels run as they are written; untuned models with the schedules a build picks itself.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tuner.errors import TuningError
from tuner.workloads import WorkloadSpec

Config = Literal["best", "untuned"]


class SuiteError(TuningError, kind="suite"):
    """A suite that does not exist or cannot be read."""


@dataclass(frozen=True)
class Suite:
    """`kernels` are named workloads, `models` files; `config` says at which config each is built."""

    name: str
    kernels: tuple[WorkloadSpec, ...]
    config: Config = "best"
    summary: str = ""
    models: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what two runs of one suite have in common."""
        models = {"models": [path.name for path in self.models]} if self.models else {}
        return {"name": self.name, "kernels": [str(kernel) for kernel in self.kernels], **models, "config": self.config}


def _suite(name: str, summary: str, *kernels: str, config: Config = "best") -> Suite:
    return Suite(name, tuple(WorkloadSpec.parse(kernel) for kernel in kernels), config, summary)


def _resnet50() -> list[str]:
    """The distinct convolutions of ResNet-50 (He et al.
    2015), batch 1: N, C, H, W, K, R, S, stride, padding."""
    layers = [(3, 224, 64, 7, 2, 3)]
    channels, size = 64, 56
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        inner = size // stride
        layers += [
            (channels, size, width, 1, 1, 0),
            (width, size, width, 3, stride, 1),
            (width, inner, 4 * width, 1, 1, 0),
            (channels, size, 4 * width, 1, stride, 0),
            (4 * width, inner, width, 1, 1, 0),
            (width, inner, width, 3, 1, 1),
        ]
        channels, size = 4 * width, inner
    distinct = dict.fromkeys(layers)
    return [f"conv2d:1,{c},{s},{s},{k},{r},{r},{stride},{pad}" for c, s, k, r, stride, pad in distinct]


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        _suite(
            "cpu-quick",
            "a few small kernels, seconds a device",
            "matmul:256,256,256",
            "conv2d:1,32,28,28,32,3,3",
            "softmax:64,1024",
            "copy:4194304",
        ),
        _suite(
            "gemm",
            "square, skinny and odd matrix products",
            *(f"matmul:{n},{n},{n}" for n in (256, 512, 1024)),
            *(f"matmul:{m},1024,1024" for m in (1, 16)),
            "matmul:509,1021,257",
            "batch_matmul:12,128,128,64",
        ),
        _suite("conv-resnet50", "the distinct convolutions of ResNet-50, batch 1", *_resnet50()),
        _suite(
            "bandwidth",
            "what memory and caches deliver: copies and triads of 64 KiB to 64 MiB an array",
            *(f"{op}:{n}" for op in ("copy", "triad") for n in (1 << 14, 1 << 18, 1 << 21, 1 << 24)),
            config="untuned",
        ),
    )
}


def find_suite(name: str) -> Suite:
    """A built-in suite by name, or one in the TOML file of that path. Raises SuiteError, WorkloadError."""
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise SuiteError(f"there is no suite {name!r}", hint=f"there are {', '.join(SUITES)}, and files: suite.toml")
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SuiteError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path} is not TOML: {error}") from None
    return _read(path, data)


def _read(path: Path, data: Mapping[str, Any]) -> Suite:
    unknown = sorted(set(data) - {"name", "kernels", "models", "config", "summary"})
    if unknown:
        raise SuiteError(
            f"{path}: unknown {', '.join(unknown)}", hint="it has name, kernels, models, config and summary"
        )
    config = data.get("config", "best")
    kernels = _words(path, data, "kernels", 'kernels = ["matmul:512,512,512"]')
    models = _words(path, data, "models", 'models = ["resnet.onnx"]')
    if not kernels and not models:
        raise SuiteError(f"{path}: kernels is not a list of workloads", hint='kernels = ["matmul:512,512,512"]')
    if config not in get_args(Config):
        raise SuiteError(f"{path}: config is {config!r}", hint='it is "best" or "untuned"')
    name, summary = str(data.get("name", path.stem)), str(data.get("summary", ""))
    files = tuple(path.parent / model for model in models)
    if missing := [str(file) for file in files if not file.is_file()]:
        raise SuiteError(f"{path}: there is no file {missing[0]}", hint="models are files beside the suite's")
    if len({file.name for file in files}) < len(files):
        raise SuiteError(f"{path}: two models have the same file name", hint="a model's series has its file's name")
    return Suite(name, tuple(map(WorkloadSpec.parse, kernels)), config, summary, files)


def _words(path: Path, data: Mapping[str, Any], key: str, example: str) -> list[str]:
    """A list of strings of a suite's file; empty where there is none."""
    found = data.get(key, [])
    if not isinstance(found, list) or not all(isinstance(word, str) and word for word in found):
        raise SuiteError(f"{path}: {key} is not a list of names", hint=example)
    return found
