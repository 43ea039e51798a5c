"""Damaged ONNX files are imported or refused with an error of the importer: they never crash, hang or take memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import CompileError
from compiler.frontend.onnx.from_onnx import import_model
from tests.kit.fuzzing import FUZZ_CASES, cases

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SLOW_S = 20.0
"""Seconds that no small file may take, on a busy machine."""


def graph(nodes: list[Any], inputs: list[Any], outputs: list[str], weights: dict[str, Any]) -> Any:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    wanted = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    return helper.make_graph(nodes, "g", inputs, wanted, held)


def whole() -> onnx.ModelProto:
    """A model with a bit of everything: computed shapes, a loop, a branch, a function, quantisation, n-grams."""
    body = graph(
        [helper.make_node("Add", ["a", "a"], ["b"]), helper.make_node("Identity", ["go"], ["on"])],
        [helper.make_tensor_value_info("n", INT64, []), helper.make_tensor_value_info("go", BOOL, []),
         helper.make_tensor_value_info("a", FLOAT, [2, 4])], ["on", "b"], {},
    )  # fmt: skip
    then, other = (graph([helper.make_node(name, ["l"], ["t"])], [], ["t"], {}) for name in ("Relu", "Neg"))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i0"], ["d"]),
        helper.make_node("Concat", ["d", "m1"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("Loop", ["times", "", "r"], ["l"], body=body),
        helper.make_node("If", ["flag"], ["c"], then_branch=then, else_branch=other),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["f"]),
        helper.make_node("Own", ["f"], ["o"], domain="own", alpha=0.5),
        helper.make_node("Split", ["o"], ["p0", "p1"], axis=1, num_outputs=2),
        helper.make_node("Slice", ["p0", "i0", "m1", "i0", "i1"], ["cut"]),
        helper.make_node("Expand", ["cut", "wide"], ["e"]),
        helper.make_node("Resize", ["e", "", "scales"], ["z"], mode="linear"),
        helper.make_node("TopK", ["z", "i1"], ["k", "ki"]),
        helper.make_node("Flatten", ["ki"], ["kf"]),
        helper.make_node(
            "TfIdfVectorizer", ["kf"], ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
            ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_int64s=[1, 2, 1, 2],
        ),
    ]  # fmt: skip
    weights = {
        "i0": np.array([0]), "i1": np.array([1]), "m1": np.array([-1]), "times": np.array(3),
        "wide": np.array([3, 2, 2]),
        "scale": np.array(0.1, np.float32), "zero": np.array(3, np.int8), "scales": np.array([1, 2, 2], np.float32),
    }  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["n", 4]), helper.make_tensor_value_info("flag", BOOL, [])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    own = helper.make_function("own", "Own", ["a"], ["b"], [helper.make_node("LeakyRelu", ["a"], ["b"])], opsets)
    made = graph(nodes, inputs, ["y", "k"], weights)
    return helper.make_model(made, opset_imports=opsets, functions=[own], ir_version=10)


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with a few of them changed, removed, repeated or exchanged."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at, size = int(rng.integers(len(data))), int(rng.integers(1, 9))
        match int(rng.integers(5)):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                data[at : at + size] = rng.bytes(size)
        if not data:
            return content
    return bytes(data)


def test_damaged_files_cost_an_error() -> None:
    content = whole().SerializeToString()
    import_model(content)
    rng = np.random.default_rng(None if FUZZ_CASES else 20)
    refused = 0
    for _ in range(cases(60)):
        given = damaged(content, rng)
        begun = time.process_time()
        try:
            import_model(given)
        except CompileError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{given.hex()}") from error
        assert time.process_time() - begun < SLOW_S, given.hex()
    assert refused
