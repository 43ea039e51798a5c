"""Models in ONNX's format, exported by torch with random weights: `make models` writes them to build/models.

    python -m tests.kit.torch.onnx_models [--only NAME …] [FOLDER]

Each model NAME.onnx has NAME.npz beside it: inputs, and what eager makes of them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.kit.torch.agreement import array, leaves
from tests.kit.torch.language import decoder, encoder
from tests.kit.torch.vision import vision_model

FOLDER = Path("build/models")
MOST_IN_CI = 30.0
"""Millions of parameters of the largest models that CI takes."""


@dataclass(frozen=True)
class Exported:
    """How a model is made, and how many million parameters it has. `dynamic`: the axis of the input that may change.

    `quantised`: its weights and activations become 8-bit integers, by QuantizeLinear and DequantizeLinear.
    """

    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    millions: float
    dynamic: int | None = None
    quantised: bool = False


def _vision(name: str, millions: float, size: int = 64, quantised: bool = False) -> Exported:
    return Exported(lambda: vision_model(name, size), millions, None, quantised)


ONNX_MODELS: dict[str, Exported] = {
    "squeezenet1_1": _vision("squeezenet1_1", 1.2),
    "mobilenet_v3_small": _vision("mobilenet_v3_small", 2.5),
    "mobilenet_v2": _vision("mobilenet_v2", 3.5),
    "mobilenet_v2_qdq": _vision("mobilenet_v2", 3.5, quantised=True),
    "efficientnet_b0": _vision("efficientnet_b0", 5.3),
    "densenet121": _vision("densenet121", 8.0),
    "resnet18": _vision("resnet18", 11.7),
    "resnet50": _vision("resnet50", 25.6),
    "resnet50_qdq": _vision("resnet50", 25.6, quantised=True),
    "convnext_tiny": _vision("convnext_tiny", 28.6),
    "vit_b_16": _vision("vit_b_16", 85.8, 224),
    "bert_base": Exported(encoder, 109.5),
    "llama": Exported(decoder, 0.1),
    "llama_n": Exported(decoder, 0.1, 1),
}
"""By the file's name; those with `_n` have a symbolic length."""


def export(name: str, folder: Path) -> Path:
    """Write a model, its inputs and results; the model's file."""
    chosen = ONNX_MODELS[name]
    module, inputs = chosen.make()
    path = folder / f"{name}.onnx"
    dynamic = None if chosen.dynamic is None else ({chosen.dynamic: torch.export.Dim("n", min=2, max=64)},)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [array(x) for x in leaves(module(*inputs))]
        program = torch.onnx.export(module, inputs, dynamo=True, dynamic_shapes=dynamic, verbose=False)
    program.save(path, external_data=chosen.millions > MOST_IN_CI)
    arrays = {f"input_{index}": array(x) for index, x in enumerate(inputs)}
    np.savez(folder / f"{name}.npz", **arrays, **{f"output_{index}": x for index, x in enumerate(wanted)})
    if chosen.quantised:
        _quantise(path, list(arrays.values()))
    return path


def _quantise(path: Path, inputs: list[Any]) -> None:
    """Replace a model by one of 8-bit integers, its ranges taken from the inputs."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    (name,) = [item.name for item in onnx.load(path).graph.input]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter([{name: x} for x in inputs])

        def get_next(self) -> Any:
            return next(self.rest, None)

    plain = path.with_suffix(".float.onnx")
    path.rename(plain)
    quantize_static(plain, path, Reader(), quant_format=QuantFormat.QDQ)
    plain.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description="Export models to ONNX.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--only", nargs="+", choices=ONNX_MODELS, default=list(ONNX_MODELS))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        start = time.monotonic()
        path = export(name, args.folder)
        print(f"{path} {path.stat().st_size / 2**20:.1f} MiB {time.monotonic() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
