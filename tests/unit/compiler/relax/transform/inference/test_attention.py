"""Attention that is written out: what becomes one operator, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.ir.transform.passes import Sequential
from compiler.ir.visit import walk
from compiler.relax.interp import run
from compiler.relax.nodes import Call, const
from tests.kit.compiler.pass_checks import arrays, as_module, becomes, computes, stays
from tunefarm.relax import BlockBuilder, TensorStructInfo, Tuple, Var, op, transform
from tunefarm.script import relax as R
from tunefarm.script import tir as T

FUSE = transform.FuseAttention()


@R.function
def written_out(
    q: R.Tensor(("n", 7, 6), "float32"),
    k: R.Tensor(("n", 5, 6), "float32"),
    v: R.Tensor(("n", 5, 8), "float32"),
    mask: R.Tensor((7, 5), "float32"),
):
    n = T.int64()
    with R.dataflow():
        lv = R.permute_dims(R.reshape(q, (n, 7, 2, 3)), [0, 2, 1, 3])
        lv1 = R.permute_dims(R.reshape(k, (n, 5, 2, 3)), [0, 2, 3, 1])
        lv2 = R.permute_dims(R.reshape(v, (n, 5, 2, 4)), [0, 2, 1, 3])
        lv3 = R.divide(R.matmul(lv, lv1), R.const(2.0, "float32"))
        lv4 = R.nn.softmax(R.add(lv3, mask), axis=-1)
        lv5 = R.permute_dims(R.matmul(lv4, lv2), [0, 2, 1, 3])
        gv = R.reshape(lv5, (n, 7, 8))
        R.output(gv)
    return gv


@R.function
def one_operator(
    q: R.Tensor(("n", 7, 6), "float32"),
    k: R.Tensor(("n", 5, 6), "float32"),
    v: R.Tensor(("n", 5, 8), "float32"),
    mask: R.Tensor((7, 5), "float32"),
):
    n = T.int64()
    with R.dataflow():
        lv = R.reshape(q, (n, 7, 2, 3))
        lv1 = R.reshape(k, (n, 5, 2, 3))
        lv2 = R.reshape(v, (n, 5, 2, 4))
        lv3 = R.nn.attention_bias(lv, lv1, lv2, mask, scale=0.5)
        gv = R.reshape(lv3, (n, 7, 8))
        R.output(gv)
    return gv


def test_heads_scale_and_mask_of_a_model_become_attention() -> None:
    both = Sequential([FUSE, transform.CanonicalizeBindings()])
    becomes(both, transform.Normalize()(as_module(written_out)), one_operator)
    computes(FUSE, transform.Normalize()(as_module(written_out)), (2, 7, 6), (2, 5, 6), (2, 5, 8), (7, 5))


def tensor(*shape: int) -> TensorStructInfo:
    return TensorStructInfo(shape, "float32")  # type: ignore[arg-type]


SHAPES = ((2, 3, 7, 4), (2, 3, 4, 5), (2, 3, 5, 6), (7, 5))


def graph(of: Any, shapes: Any = SHAPES) -> Any:
    """Return the graph that `of` builds; it takes a builder's `emit`, query, key (transposed), value and a mask."""
    bb = BlockBuilder()
    params = [Var(name, tensor(*shape)) for name, shape in zip("qkvm", shapes, strict=True)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(of(bb.emit, *params))
        bb.emit_func_output(out)
    return bb.get()


def operators(mod: Any) -> list[str]:
    return [node.op.name for node in walk(mod["main"]) if isinstance(node, Call)]


@pytest.mark.parametrize(
    ("shapes", "scale"),
    [
        (SHAPES, lambda e, s: e(op.multiply(const(0.25), e(op.divide(s, const(2.0)))))),
        (((3, 7, 4), (3, 4, 5), (3, 5, 6), (3, 1, 5)), lambda e, s: s),
        (((3, 7, 4), (3, 4, 5), (3, 5, 6), (5,)), lambda e, s: s),
        (((3, 1, 4), (3, 4, 5), (3, 5, 6), (3, 1, 5)), lambda e, s: e(op.multiply(s, const(0.5)))),
    ],
)
def test_products_of_heads_or_of_batches(shapes: Any, scale: Any) -> None:
    """One that hides every score of a row leaves equal shares, as it did."""

    def of(emit: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = emit(op.add(scale(emit, emit(op.matmul(q, k))), m))
        for condition in (op.less(m, const(0.5)), op.greater(m, const(-0.5))):
            scores = emit(op.where(emit(condition), scores, const(-3.4e38)))
        return op.matmul(emit(op.nn.softmax(scores)), v)

    made = computes(FUSE, graph(of, shapes), *shapes)
    assert operators(made).count("relax.nn.attention_bias") == 1
    assert "relax.nn.softmax" not in operators(made)


def test_attention_as_torch_exports_it() -> None:
    """Queries and keys are scaled each, keys transposed as matrices of one batch, shares kept from being no numbers."""

    def of(emit: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        q, k, v = (emit(op.permute_dims(emit(op.reshape(item, (2, 5, 3, 4))), [0, 2, 1, 3])) for item in (q, k, v))
        turned = emit(op.permute_dims(emit(op.reshape(k, (6, 5, 4))), [0, 2, 1]))
        k = emit(op.multiply(emit(op.reshape(turned, (2, 3, 4, 5))), const(0.5)))
        scores = emit(op.add(emit(op.matmul(emit(op.multiply(q, const(0.5))), k)), m))
        shares = emit(op.nn.softmax(scores))
        shares = emit(op.where(emit(op.isnan(shares)), const(0.0), shares))
        return op.permute_dims(emit(op.matmul(shares, v)), [0, 2, 1, 3])

    shapes = ((2, 5, 12), (2, 5, 12), (2, 5, 12), (5, 5))
    made = transform.CanonicalizeBindings()(computes(FUSE, graph(of, shapes), *shapes))
    assert [name for name in operators(made) if name != "relax.reshape"] == [
        "relax.nn.attention_bias", "relax.isnan", "relax.where",
    ]  # fmt: skip
    masked = as_module(made)
    hidden = np.full((5, 5), -np.inf, "float32")
    assert not np.isnan(run(masked, *arrays(shapes[:3]), hidden)).any()


def test_a_scale_known_when_the_model_runs_scales_queries() -> None:
    shapes = (*SHAPES[:3], (1,))
    made = computes(
        FUSE, graph(lambda e, q, k, v, m: op.matmul(e(op.nn.softmax(e(op.divide(e(op.matmul(q, k)), m)))), v), shapes),
        *shapes,
    )  # fmt: skip
    assert operators(made) == [
        "relax.permute_dims", "relax.divide", "relax.permute_dims", "relax.permute_dims", "relax.nn.attention",
        "relax.permute_dims",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "of",
    [
        lambda e, q, k, v, m: op.matmul(e(op.nn.softmax(e(op.matmul(q, k)), 2)), v),  # along queries
        lambda e, q, k, v, m: op.matmul(e(op.nn.softmax(e(op.multiply(e(op.add(e(op.matmul(q, k)), m)), m)))), v),
        lambda e, q, k, v, m: op.matmul(e(op.nn.softmax(e(op.tanh(e(op.matmul(q, k)))))), v),
        lambda e, q, k, v, m: op.matmul(
            e(op.nn.softmax(e(op.where(e(op.less(m, const(0.0))), e(op.matmul(q, k)), const(-5.0))))), v
        ),
        lambda e, q, k, v, m: op.matmul(
            e(op.nn.softmax(e(op.multiply(e(op.add(e(op.matmul(q, k)), m)), const(2.0))))), v
        ),
    ],
)  # fmt: skip
def test_what_is_something_else_stays(of: Any) -> None:
    stays(FUSE, graph(of))


def test_shares_that_something_else_reads_stay() -> None:
    bb = BlockBuilder()
    q, k, v = (Var(name, tensor(*shape)) for name, shape in zip("qkv", SHAPES))
    with bb.function("main", [q, k, v]):
        with bb.dataflow():
            shares = bb.emit_output(op.nn.softmax(bb.emit(op.matmul(q, k))))
            out = bb.emit_output(op.matmul(shares, v))
        bb.emit_func_output(Tuple((out, shares)))
    stays(FUSE, bb.get())
