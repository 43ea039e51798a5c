"""An ONNX model from a file to its results: imported, built once for every batch size, run, and saved as a library.

    python examples/onnx_model.py [MODEL.onnx]

Without a file it writes a small network with random weights, and checks its results against ONNX's reference. It needs
`pip install 'tunefarm[onnx]'`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tunefarm as tvm
from tunefarm import relax
from tunefarm.relax.frontend.onnx import from_onnx


def write_model(path: Path) -> None:
    """A small network for images of a batch whose size is not known: filters, a mean over each image, a matrix."""
    rng = np.random.default_rng(0)
    weights = {
        "filters": rng.normal(0, 0.3, (8, 3, 3, 3)).astype("float32"),
        "matrix": rng.normal(0, 0.3, (8, 10)).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["edges"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["edges"], ["bright"]),
        helper.make_node("GlobalAveragePool", ["bright"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["classes"]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def run(path: Path, folder: Path) -> None:
    """Import the model, build it, run it for two batch sizes, and load it again from a library."""
    module = from_onnx(path)
    print(module["main"].params[0].struct_info)
    executable = relax.build(module, "llvm", exec_mode="compiled")
    library = folder / "model.so"
    executable.export_library(library)
    rng = np.random.default_rng(1)
    held = [relax.VirtualMachine(found, tvm.cpu()) for found in (executable, tvm.runtime.load_module(library))]
    for batch in (1, 4):
        image = rng.normal(size=(batch, 3, 16, 16)).astype("float32")
        first, second = (machine["main"](image).numpy() for machine in held)
        assert np.array_equal(first, second)
        print(f"batch {batch}: classes {first.argmax(axis=1).tolist()}")
        check(path, image, first)


def check(path: Path, image: np.ndarray, found: np.ndarray) -> None:
    """Compare results with those of ONNX's own, slow, reference."""
    from onnx.reference import ReferenceEvaluator

    (wanted,) = ReferenceEvaluator(onnx.load(path)).run(None, {"image": image})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            print(from_onnx(sys.argv[1]).script(show_meta=False))
        else:
            write_model(Path(scratch) / "small.onnx")
            run(Path(scratch) / "small.onnx", Path(scratch))
