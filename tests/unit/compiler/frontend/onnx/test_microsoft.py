"""Operators of com.microsoft agree with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tunefarm.contrib import onnx_backend

RNG = np.random.default_rng(11)
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}  # fmt: skip


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> Any:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def one(value: float) -> Any:
    return np.array(value, np.float32)


def zero(value: int, dtype: str = "uint8") -> Any:
    return np.array(value, dtype)


def angles(count: int, half: int) -> tuple[Any, Any]:
    turn = np.arange(count)[:, None] / 10.0 ** (np.arange(half) / half)
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


COS, SIN = angles(16, 4)

CASES: dict[str, tuple[str, list[Any], int, dict[str, Any]]] = {
    # name: operator, inputs (None: left out), results, attributes
    "bias_gelu": ("BiasGelu", [f(2, 3, 8), f(8)], 1, {}),
    "fast_gelu": ("FastGelu", [f(2, 3, 8), f(8)], 1, {}),
    "quick_gelu": ("QuickGelu", [f(2, 8)], 1, {"alpha": 1.5}),
    "gelu": ("Gelu", [f(2, 8)], 1, {}),
    "fused_matmul": ("FusedMatMul", [f(2, 5, 3), f(2, 4, 5)], 1, {"transA": 1, "transB": 1, "alpha": 0.5}),
    "fused_gemm": ("FusedGemm", [f(3, 4), f(4, 5), f(5)], 1, {"activation": "LeakyRelu", "activation_alpha": 0.1}),
    "fused_conv": ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], 1, {"activation": "Relu", "pads": [1] * 4}),
    "skip_layer_norm": ("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], 4, {"epsilon": 1e-5}),
    "skip_simplified": ("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], 4, {"epsilon": 1e-5}),
    "simplified": ("SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], 1, {"axis": -1, "epsilon": 1e-5}),
    "embed": (
        "EmbedLayerNormalization",
        [RNG.integers(0, 9, (2, 5)).astype(np.int32), RNG.integers(0, 2, (2, 5)).astype(np.int32), f(9, 8), f(6, 8),
         f(2, 8), f(8), f(8), np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)], 2, {"epsilon": 1e-5},
    ),
    "attention": ("Attention", [f(2, 5, 8), f(8, 24), f(24)], 1, {"num_heads": 2}),
    "attention_lengths": (
        "Attention", [f(2, 5, 8), f(8, 24), f(24), np.array([5, 3], np.int32)], 1, {"num_heads": 2},
    ),
    "attention_causal": (
        "Attention", [f(2, 5, 8), f(8, 24), f(24), np.array([[1] * 5, [1, 1, 1, 1, 0]], np.int32)], 1,
        {"num_heads": 2, "unidirectional": 1},
    ),
    "attention_past": (
        "Attention", [f(2, 3, 8), f(8, 24), f(24), None, f(2, 2, 2, 4, 4)], 2, {"num_heads": 2, "unidirectional": 1},
    ),
    "multi_head": (
        "MultiHeadAttention", [f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), f(24), None, f(1, 2, 3, 5)], 1, {"num_heads": 2},
    ),
    "multi_head_past": (
        "MultiHeadAttention", [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), None, None, None, f(2, 2, 4, 4), f(2, 2, 4, 4)], 3,
        {"num_heads": 2},
    ),
    "rotary": ("RotaryEmbedding", [f(2, 3, 16), np.array([[0, 1, 2], [4, 5, 6]]), COS, SIN], 1, {}),
    "rotary_pairs": (
        "RotaryEmbedding", [f(2, 2, 3, 8), np.array([3]), COS, SIN], 1, {"interleaved": 1},
    ),
    "group_query": (
        "GroupQueryAttention",
        [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 5, 16), f(2, 2, 5, 16), np.array([5, 5], np.int32),
         np.array(6, np.int32), *angles(16, 8)], 3, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
    ),
    "group_query_prompt": (
        "GroupQueryAttention",
        [f(1, 6, 64), None, None, None, None, np.array([5], np.int32), np.array(6, np.int32)], 3,
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3},
    ),
    "matmul_4_bits": ("MatMulNBits", [f(3, 32), u8(6, 2, 8), f(12)], 1,
                      {"K": 32, "N": 6, "bits": 4, "block_size": 16}),
    "matmul_4_bits_zero": ("MatMulNBits", [f(3, 40), u8(6, 3, 8), f(18), u8(12)], 1,
                           {"K": 40, "N": 6, "bits": 4, "block_size": 16}),
    "qlinear_add": (
        "QLinearAdd", [u8(2, 7), one(0.1), zero(3), u8(2, 7), one(0.2), zero(9), one(0.25), zero(5)], 1, {},
    ),
    "qlinear_mul": ("QLinearMul", [u8(2, 7), one(0.1), zero(3), u8(7), one(0.2), zero(9), one(4.0), zero(5)], 1, {}),
    "qlinear_sigmoid": ("QLinearSigmoid", [u8(2, 7), one(0.05), zero(128), one(1 / 256), zero(0)], 1, {}),
    "qlinear_leaky": ("QLinearLeakyRelu", [u8(2, 7), one(0.05), zero(128), one(0.05), zero(50)], 1, {"alpha": 0.1}),
    "qlinear_mean": ("QLinearGlobalAveragePool", [u8(1, 3, 4, 4), one(0.1), zero(9), one(0.11), zero(4)], 1, {}),
    "qlinear_pool": (
        "QLinearAveragePool", [u8(1, 3, 4, 4), one(0.1), zero(9), one(0.11), zero(4)], 1, {"kernel_shape": [2, 2]},
    ),
    "qlinear_concat": (
        "QLinearConcat", [one(0.2), zero(4), u8(1, 3), one(0.1), zero(9), u8(1, 2), one(0.3), zero(1)], 1, {"axis": 1},
    ),
    "qgemm": (
        "QGemm", [u8(3, 8), one(0.05), zero(120), RNG.integers(-90, 90, (5, 8)).astype(np.int8), one(0.02),
                  zero(0, "int8"), np.arange(5, dtype=np.int32) * 100, one(0.1), zero(128)], 1, {"transB": 1},
    ),
    "matmul_to_float": (
        "MatMulIntegerToFloat", [u8(3, 8), u8(8, 5), one(0.05), one(0.02), zero(120), zero(100), f(5)], 1, {},
    ),
    "dynamic_matmul": ("DynamicQuantizeMatMul", [f(3, 8), u8(8, 5), one(0.02), zero(100), f(5)], 1, {}),
}  # fmt: skip


def model(operator: str, inputs: list[Any], results: int, attrs: dict[str, Any]) -> onnx.ModelProto:
    """A node whose first input is an input, the integers and floats after it weights."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    domain = "" if operator.startswith("Simplified") else "com.microsoft"
    node = helper.make_node(operator, names, [f"y{k}" for k in range(results)], domain=domain, **attrs)
    if operator.startswith("Skip"):
        node.output[1] = node.output[2] = ""
    asked = [name for name in node.output if name]
    held = [(name, x) for name, x in zip(names, inputs) if name]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(name, KINDS[x.dtype.name], x.shape) for name, x in held[:1]],
        [helper.make_value_info(name, onnx.TypeProto()) for name in asked],
        [numpy_helper.from_array(x, name) for name, x in held[1:]],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnxruntime(name: str) -> None:
    operator, inputs, results, attrs = CASES[name]
    made = model(operator, inputs, results, attrs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"i0": inputs[0]})
    found = onnx_backend.prepare(made).run([inputs[0]])
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype == np.uint8:  # halves may be rounded either way
            assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
            assert (got == want).mean() > 0.8
        else:
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-5)
