"""Models in less than float32: quantised to 8-bit integers (QDQ), or computed in bfloat16."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

PRECISIONS = ("float32", "bfloat16", "int8")
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2, "int8": 5e-2}
"""The part of the largest result by which a precision may differ from float64 (int8: from its own integers)."""


def quantised(model: Any, given: dict[str, Any]) -> Any:
    """The model with 8-bit activations and weights, by onnxruntime's static quantisation on one input."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [given]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    with tempfile.TemporaryDirectory() as name:
        paths = [str(Path(name) / f"{step}.onnx") for step in ("float", "ready", "integers")]
        onnx.save(model, paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantize_static(
            paths[1], paths[2], Once(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8, per_channel=True,
        )  # fmt: skip
        return onnx.load(paths[2])


def by_reference(model: Any, given: dict[str, Any]) -> Any:
    """The first result of a quantised model, as onnx's reference evaluator computes it."""
    evaluator: Any = ReferenceEvaluator(model)
    return np.asarray(evaluator.run(None, given)[0])


def shortened(module: Any) -> Any:
    """A graph module whose products and convolutions are computed of bfloat16, and what follows them.
    Batch norms are computed in float32, and so is what comes after them, unless they are folded before."""
    from tunefarm.ir.transform import Sequential
    from tunefarm.relax import transform

    before = [transform.FoldBatchnormToConv2D(), transform.CanonicalizeBindings()]
    return Sequential([*before, transform.ToMixedPrecision(dtype="bfloat16")])(module)
