"""The steps of a model's build job: register it, ask for all of its configs at once, build, check, and tell its time.

Start the web app first, and tune the model if it has no configs yet:
    tunefarm web
    tunefarm tune layers.onnx
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tunefarm as tvm
from tunefarm import relax
from tunefarm.client import Client, use_configs
from tunefarm.relax.frontend.onnx import from_onnx

API = "http://127.0.0.1:9180"
FILE = "layers.onnx"


def make_model():
    """Two layers, as an ONNX file."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((64, 64)).astype("float32") / 8 for _ in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w1"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 64]) for name in "xy"]
    held = [numpy_helper.from_array(array, f"w{number}") for number, array in enumerate(weights)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), FILE)
    return weights


def main():
    first, second = make_model()
    with Client(API) as client:
        model = client.register_model(FILE, upload=True)
        configs = client.model_configs(model.id)
        tuned = sum(reply.tuned for reply in configs.values())
        print(f"{model.name}: {tuned} of {len(configs)} kernels have a config")

        with use_configs(configs):
            executable = relax.build(from_onnx(FILE), "llvm", exec_mode="compiled")
        executable.export_library("layers.tunefarm")

        machine = relax.VirtualMachine(tvm.runtime.load_module("layers.tunefarm"), tvm.cpu())
        x = np.random.default_rng(1).random((32, 64), dtype="float32")
        result = machine["main"](tvm.nd.array(x)).numpy()
        np.testing.assert_allclose(result, np.maximum(x @ first, 0) @ second, rtol=1e-3, atol=1e-4)

        seconds = machine.time_evaluator("main", tvm.cpu(), number=10, repeat=3)(tvm.nd.array(x)).results
        told = client.add_model_time(
            model.id, model.latest, seconds, device="build-1", device_class="build-machine", target="llvm"
        )
    print(f"a run takes {1e6 * told['cost_s']:.1f} us")


if __name__ == "__main__":
    main()
