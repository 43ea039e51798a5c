"""Patterns that backends have in common: attention in its forms, and products of quantized numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, const, op, transform
from tunefarm.relax.backend.patterns import (
    make_attention_pattern,
    make_attention_rewrite_pattern,
    make_matmul_dequantize_pattern,
    make_matmul_multiply_pattern,
    make_stacked_attention_pattern,
)
from tunefarm.relax.dpl import rewrite_call


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


@pytest.mark.parametrize("bias", [None, (6, 5, 7), (6, 1, 7), (1, 5, 7), (7,)])
@pytest.mark.parametrize(
    ("layout", "form"), [("BSNH", ""), ("BSNH", "cast"), ("BSNH", "repeat"), ("BSH", ""), ("BSH", "cast")]
)
def test_attention_that_is_written_out_becomes_the_operator(bias: Any, layout: str, form: str) -> None:
    batch, heads, length, keys, width = 2, 3, 5, 7, 4
    shapes = [(batch, n, heads, width) if layout == "BSNH" else (batch * heads, n, width) for n in (length, keys, keys)]
    if form == "repeat":
        shapes[1:] = [(batch, keys, 1, width)] * 2
    bb = BlockBuilder()
    given = [Var(name, TensorStructInfo(shape, "float32")) for name, shape in zip("qkv", shapes)]
    given += [Var("bias", TensorStructInfo(bias, "float32"))] if bias else []
    emit = bb.emit

    def joined(x: Any, repeats: bool = False) -> Any:
        x = emit(op.repeat(x, heads, 2)) if repeats else x
        if layout == "BSH":
            return x
        return emit(op.reshape(emit(op.permute_dims(x, [0, 2, 1, 3])), (batch * heads, -1, width)))

    def cast(x: Any, dtype: str) -> Any:
        return emit(op.astype(x, dtype)) if form == "cast" else x

    with bb.function("main", given):
        with bb.dataflow():
            query, key, value = joined(given[0]), joined(given[1], form == "repeat"), joined(given[2], form == "repeat")
            scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 2, 1]))))
            factor = const(np.array(0.3, "float64" if form == "cast" else "float32"))
            scores = emit(op.multiply(scores, cast(factor, "float32")))
            scores = emit(op.add(scores, given[3])) if bias else scores
            shares = cast(emit(op.nn.softmax(cast(scores, "float64"))), "float32")
            out = emit(op.matmul(shares, value))
            if layout == "BSNH":
                out = emit(op.permute_dims(emit(op.reshape(out, (batch, heads, length, width))), [0, 2, 1, 3]))
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    mod = bb.get()
    rule = make_attention_rewrite_pattern(layout, layout, bool(bias), form == "cast", form == "repeat")
    made = mod.with_functions({"main": rewrite_call(*rule, mod["main"])})
    assert problems(made) == []
    assert "R.nn.attention" in made.script()
    assert "R.nn.softmax" not in made.script()
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in [*shapes, *([bias] if bias else [])]]
    np.testing.assert_allclose(run(made, *args), run(mod, *args), rtol=1e-4, atol=1e-5)


def test_attention_over_another_axis_stays() -> None:
    bb = BlockBuilder()
    given = [Var(name, TensorStructInfo((2, 5, 5), "float32")) for name in "qkv"]
    with bb.function("main", given):
        with bb.dataflow():
            q, k, v = given
            scores = bb.emit(op.matmul(q, bb.emit(op.permute_dims(k, [0, 2, 1]))))
            shares = bb.emit(op.nn.softmax(bb.emit(op.multiply(scores, const(0.5))), axis=1))
            out = bb.emit_output(op.matmul(shares, v))
        bb.emit_func_output(out)
    rule = make_attention_rewrite_pattern("BSH", "BSH", False, False)
    assert rewrite_call(*rule, bb.get()["main"]) is bb.get()["main"]
    with pytest.raises(ArgumentError, match="BNSH"):
        make_attention_rewrite_pattern("BNSH", "BSH", False, False)
