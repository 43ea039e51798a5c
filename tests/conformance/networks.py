"""The networks of the `onnx` wheel's data/light: their graphs with weights, and what onnxruntime makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.kit.places import ROOT, python_path

FOLDER = "backend/test/data/light"
PARAMETERS = {
    "squeezenet": 1, "shufflenet": 1, "inception_v1": 7, "densenet121": 8, "inception_v2": 11, "resnet50": 26,
    "bvlc_alexnet": 61, "zfnet512": 87, "vgg19": 144,
}  # fmt: skip
"""Millions of parameters."""


def network(name: str) -> Any:
    """A network with random weights in place of the constants that the wheel's file makes up when it runs.

    Filters are scaled by what they sum over, so that numbers neither vanish nor grow; variances are positive.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(Path(onnx.__file__).parent / FOLDER / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(len(name))
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    variances = {node.input[4] for node in graph.node if node.op_type == "BatchNormalization"}
    made: dict[str, Any] = {}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(size) for size in held[node.input[0]])
            if len(shape) > 1:
                spread = 1.4 / np.sqrt(np.prod(shape[1:]))
                made[node.output[0]] = (rng.standard_normal(shape, np.float32) * np.float32(spread)).astype(np.float32)
            else:
                made[node.output[0]] = rng.uniform(0.05, 0.15, shape).astype(np.float32)
    for key, array in held.items():
        if array.dtype == np.float32 and array.ndim == 1:
            made[key] = rng.uniform(0.05, 0.15, array.shape).astype(np.float32)
    for key in variances & set(made):
        made[key] = rng.uniform(0.5, 1.5, made[key].shape).astype(np.float32)
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    used = {name for node in nodes for name in node.input}
    weights = {**{key: array for key, array in held.items() if key in used}, **made}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in weights.items())
    inputs = [item for item in graph.input if item.name not in weights and item.name in used]
    del graph.input[:]
    graph.input.extend(inputs)
    return model


def image(model: Any) -> Any:
    """A random image for a network."""
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def by_onnxruntime(model: Any, *inputs: Any) -> list[Any]:
    """Return onnxruntime's results for inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    found: list[Any] = session.run(None, dict(zip(names, inputs)))
    return found


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a network does: nodes, seconds of importing and of building, and the largest difference to onnxruntime.

    `difference` is relative to the largest result.
    """

    name: str
    nodes: int
    import_s: float
    build_s: float
    difference: float


def compare(name: str) -> Agreement:
    """Import, build and run a network, and compare its result with onnxruntime's."""
    from compiler.frontend.onnx.from_onnx import import_model
    from tunefarm.contrib import onnx_backend

    model = network(name)
    x = image(model)
    begun = time.process_time()
    import_model(model)
    imported = time.process_time()
    rep = onnx_backend.prepare(model, recompile=False)
    built = time.process_time()
    found, wanted = rep.run([x])[0], by_onnxruntime(model, x)[0]
    far = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    return Agreement(name, len(model.graph.node), imported - begun, built - imported, far)


def compared(name: str) -> Agreement:
    """`compare` in a process of its own, whose memory goes with it."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-W", "ignore", "-m", "tests.conformance.networks", name]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True, env=environment)
    return Agreement(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(asdict(compare(sys.argv[1]))))
