"""A model's results beside those of another program: how far apart, and which operator is the first that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tunefarm as tvm
from compiler.errors import ArgumentError, TunefarmError
from compiler.frontend.model_files import ModelFile
from compiler.relax.interp import run as interpret
from tunefarm import relax
from tunefarm.cli.models.inputs import AnyArray

PEERS = ("onnxruntime", "reference")


@dataclass(frozen=True)
class Difference:
    """How far one tensor is from what it should be: the largest difference, and that as a part of the largest value."""

    name: str
    absolute: float
    relative: float
    agrees: bool


@dataclass(frozen=True)
class FirstDifference:
    """The first operator of a model whose result differs."""

    node: str
    operator: str
    difference: Difference


class ComparisonError(TunefarmError):
    """What to compare with is not there, or does not take the model."""

    kind = "comparison"


def difference(name: str, got: AnyArray, want: AnyArray, rtol: float, atol: float) -> Difference:
    """How far `got` is from `want`. They agree where no difference is above atol + rtol × |want|."""
    if got.shape != want.shape:
        return Difference(name, np.inf, np.inf, False)
    if not want.size:
        return Difference(name, 0.0, 0.0, True)
    left, right = got.astype(np.float64), want.astype(np.float64)
    apart = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.abs(left - right))
    apart = np.where(np.isnan(apart), np.inf, apart)
    largest = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    worst = float(apart.max())
    return Difference(
        name, worst, worst / largest if largest else worst, bool((apart <= atol + rtol * np.abs(right)).all())
    )


def peer_results(peer: str, model: ModelFile, path: Path, inputs: Mapping[str, AnyArray]) -> list[AnyArray]:
    """The results that another program gives. Raises ComparisonError where it cannot be asked."""
    if peer == "reference":
        found = interpret(model.module, *inputs.values())
        return [np.asarray(item) for item in (found if isinstance(found, tuple) else (found,))]
    return [np.asarray(item) for item in _onnxruntime(path, str(path), inputs)]


def _onnxruntime(path: Path, content: str | bytes, inputs: Mapping[str, AnyArray]) -> Sequence[Any]:
    if path.suffix != ".onnx":
        raise ArgumentError(f"onnxruntime runs ONNX models, {path} is none", hint="--compare reference")
    try:
        import onnxruntime
    except ImportError:
        raise ComparisonError("onnxruntime is not installed", hint="pip install onnxruntime") from None
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        results: Sequence[Any] = session.run(None, dict(inputs))
    except Exception as error:  # its errors are of a dozen classes of its own
        raise ComparisonError(f"onnxruntime refuses the model: {str(error).splitlines()[0]}") from None
    return results


def first_difference(
    path: Path, target: Any, sizes: Mapping[str, int], inputs: Mapping[str, AnyArray], rtol: float, atol: float
) -> FirstDifference | None:
    """The first operator of an ONNX model, in order of computation, whose result differs from onnxruntime's."""
    from compiler.frontend.onnx.from_onnx import import_model  # loads onnx
    from compiler.frontend.onnx.taps import tapped

    content, taps = tapped(path)
    wanted = _onnxruntime(path, content, inputs)
    imported = import_model(content)
    model = ModelFile(path.stem, imported.module, imported.inputs).with_sizes(sizes)
    machine = relax.VirtualMachine(relax.build(model.module, target, exec_mode="compiled"), tvm.cpu())
    found = machine["main"](*inputs.values())
    for tap, got, want in zip(taps, found if isinstance(found, tuple) else (found,), wanted, strict=True):
        if isinstance(want, np.ndarray) and hasattr(got, "numpy"):
            apart = difference(tap.tensor, got.numpy(), want, rtol, atol)
            if not apart.agrees:
                return FirstDifference(tap.node, tap.operator, apart)
    return None
