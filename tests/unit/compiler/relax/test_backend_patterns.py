"""Patterns that backends have in common: attention in its forms, and products of quantized numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, const, op, transform
from tunefarm.relax.backend.patterns import (
    make_attention_pattern,
    make_matmul_dequantize_pattern,
    make_matmul_multiply_pattern,
    make_stacked_attention_pattern,
)


def matched(pattern: Any, of: Any, **shapes: Any) -> int:
    """How many composite functions the pattern makes of the graph that `of` builds."""
    bb = BlockBuilder()
    params = [Var(name, TensorStructInfo(shape, dtype)) for name, (shape, dtype) in shapes.items()]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(of(bb.emit, *params))
        bb.emit_func_output(out)
    mod = transform.FuseOpsByPattern([("mine.it", *pattern)])(bb.get())
    return sum("Composite" in func.attrs for func in mod.values())


@pytest.mark.parametrize("start_op", ["split", "strided_slice"])
@pytest.mark.parametrize("layout", ["BS3NH", "SBN3H"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_stacked_attention(start_op: str, layout: str, with_bias: bool) -> None:
    def of(emit: Any, x: Any, bias: Any) -> Any:
        parts = emit(op.split(x, 3, axis=2))
        heads = []
        for place in range(3):
            part = emit(parts[place]) if start_op == "split" else emit(
                op.strided_slice(x, axes=[2], begin=[8 * place], end=[8 * place + 8])
            )  # fmt: skip
            part = emit(op.reshape(part, (2, 6, 2, 4)))
            heads.append(emit(op.permute_dims(part, [1, 0, 2, 3])) if layout == "SBN3H" else part)
        made = emit(op.nn.attention(*heads, bias if with_bias else None))
        return op.permute_dims(made, [1, 0, 2, 3]) if layout == "SBN3H" else op.negative(made)

    shapes = {"x": ((2, 6, 24), "float32"), "bias": ((1, 1, 1, 1), "float32")}
    pattern = make_stacked_attention_pattern(start_op, with_bias, layout)
    assert matched(pattern, of, **shapes) == 1
    assert matched(make_stacked_attention_pattern(start_op, not with_bias, layout), of, **shapes) == 0


def test_what_there_is_no_pattern_for() -> None:
    for wrong in ({"start_op": "concat"}, {"start_op": "split", "layout": "NCHW"}):
        with pytest.raises(ArgumentError, match=r"is 'concat'|is 'NCHW'"):
            make_stacked_attention_pattern(**wrong)


def test_attention_of_sequences_of_several_lengths() -> None:
    def of(emit: Any, x: Any, starts: Any, most: Any) -> Any:
        return op.nn.attention_var_len(x, x, x, starts, most, starts, most)

    shapes = {"x": ((1, 6, 2, 4), "float32"), "starts": ((3,), "int32"), "most": ((1,), "int32")}
    assert matched(make_attention_pattern(var_len=True), of, **shapes) == 1


def test_products_of_quantized_numbers() -> None:
    def dequantized(emit: Any, a: Any, b: Any) -> Any:
        product = emit(op.matmul(a, b, out_dtype="int32"))
        return op.dequantize(product, const(np.float32(0.5)), const(np.int8(0)))

    shapes = {"a": ((4, 4), "int8"), "b": ((4, 4), "int8")}
    assert matched(make_matmul_dequantize_pattern(), dequantized, **shapes) == 1
    assert matched(make_matmul_dequantize_pattern(transposed_rhs=True), dequantized, **shapes) == 0
    assert matched(make_matmul_multiply_pattern(), dequantized, **shapes) == 0

    def multiplied(emit: Any, a: Any, b: Any, s: Any, t: Any) -> Any:
        product = emit(op.matmul(a, emit(op.permute_dims(b))))
        return op.astype(emit(op.multiply(product, emit(op.multiply(s, t)))), "float16")

    numbers = dict.fromkeys("ab", ((4, 4), "float32")) | dict.fromkeys("st", ((1,), "float32"))
    assert matched(make_matmul_multiply_pattern(transposed_rhs=True), multiplied, **numbers) == 1
