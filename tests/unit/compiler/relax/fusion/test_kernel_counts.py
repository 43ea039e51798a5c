"""How many kernels a model takes, and that a kernel of several products is scheduled part by part."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.interp.interpreter import run as interpret
from compiler.relax.fusion.parts import parts_of, put_together
from compiler.relax.interp import run
from compiler.relax.transform.pipeline import FUSION, KERNELS, PREPARATION, pass_of
from compiler.relax.transform.rewrite_dataflow_reshape import rewrite_dataflow_reshape
from tests.kit.compiler.pass_checks import same_values
from tunefarm import relax, te, topi
from tunefarm.relax import BlockBuilder, Call, Expr, TensorStructInfo, Var, op

WIDTH, HEADS, TOKENS = 32, 2, 8


def encoder(layers: int, torch_heads: bool) -> tuple[Any, dict[str, Any]]:
    """A small BERT and its weights: embeddings and layers, with attention as an operator.

    With `torch_heads` heads lie outside of lengths, and attention permutes them, as models of PyTorch have it.
    """
    rng, bb, weights = np.random.default_rng(0), BlockBuilder(), {}
    params = [Var("ids", TensorStructInfo((1, TOKENS), "int64"))]  # type: ignore[arg-type]

    def weight(*shape: int) -> Var:
        var = Var(f"w{len(params)}", TensorStructInfo(shape, "float32"))  # type: ignore[arg-type]
        weights[var.name_hint] = rng.uniform(-0.3, 0.3, shape).astype("float32")
        params.append(var)
        return var

    def linear(data: Expr, inputs: int, outputs: int) -> Expr:
        turned = bb.emit(op.permute_dims(weight(outputs, inputs)))
        return bb.emit(op.add(bb.emit(op.matmul(data, turned)), weight(outputs)))

    def norm(data: Expr) -> Expr:
        return bb.emit(op.nn.layer_norm(data, weight(WIDTH), weight(WIDTH), axes=[-1]))

    def turned(data: Expr) -> Expr:
        return bb.emit(op.permute_dims(data, [0, 2, 1, 3])) if torch_heads else data

    with bb.function("main"):
        with bb.dataflow():
            data: Expr = bb.emit(op.take(weight(50, WIDTH), bb.emit(op.reshape(params[0], (TOKENS,))), axis=0))
            data = bb.emit(op.reshape(data, (1, TOKENS, WIDTH)))
            data = norm(bb.emit(op.add(data, weight(1, TOKENS, WIDTH))))
            for _ in range(layers):
                parts = [bb.emit(op.reshape(linear(data, WIDTH, WIDTH), (1, TOKENS, HEADS, -1))) for _ in range(3)]
                mixed = turned(bb.emit(op.nn.attention(*[turned(turned(part)) for part in parts])))
                mixed = bb.emit(op.reshape(turned(mixed), (1, TOKENS, WIDTH)))
                data = norm(bb.emit(op.add(data, linear(mixed, WIDTH, WIDTH))))
                wide = bb.emit(op.nn.gelu(linear(data, WIDTH, 4 * WIDTH)))
                data = norm(bb.emit(op.add(data, linear(wide, 4 * WIDTH, WIDTH))))
            result = bb.emit_output(data)
        bb.emit_func_output(result, params)
    return bb.get(), weights


def lowered(mod: Any) -> Any:
    steps = (*PREPARATION, *KERNELS, *FUSION, rewrite_dataflow_reshape)
    return tvm.transform.Sequential([pass_of(step).make() for step in steps])(mod)


def kernels(mod: Any) -> Counter[str]:
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    calls = [value for value in values if isinstance(value, Call) and value.op.name == "relax.call_tir"]
    return Counter(call.args[0].name_hint for call in calls)


@pytest.mark.parametrize("torch_heads", [False, True])
def test_bert_base_takes_85_kernels(torch_heads: bool) -> None:
    """Each layer has the three products of attention at once, attention, three other products and two norms."""
    mod, weights = encoder(2, torch_heads)
    made = lowered(relax.transform.BindParams("main", weights)(mod))
    assert kernels(made).total() == 1 + 7 * 2  # so 85 for the twelve layers of BERT-base
    ids = np.arange(TOKENS).reshape(1, TOKENS)
    same_values(run(made, ids), run(mod, ids, *weights.values()), 1e-3, 1e-4)


@pytest.mark.parametrize("torch_heads", [False, True])
def test_bert_base_takes_as_few_with_weights_that_are_prepared_apart(torch_heads: bool) -> None:
    mod, weights = encoder(2, torch_heads)
    mod = mod.with_functions({"main": mod["main"].with_attr("num_input", 1)})
    joined = relax.transform.CombineParallelMatmul()(mod)
    apart = lowered(relax.transform.LiftTransformParams()(joined))
    assert kernels(apart).total() == 1 + 7 * 2
    ids = np.arange(TOKENS).reshape(1, TOKENS)
    prepared = run(apart, tuple(weights.values()), func="main_transform_params")
    same_values(run(apart, ids, *prepared), run(mod, ids, *weights.values()), 1e-3, 1e-4)


def test_two_products_stay_apart_where_more_is_computed_of_them() -> None:
    bb, rng = BlockBuilder(), np.random.default_rng(0)
    x = Var("x", TensorStructInfo((4, 8), "float32"))  # type: ignore[arg-type]
    a, b = (relax.const(rng.standard_normal((8, 6)).astype("float32")) for _ in range(2))
    with bb.function("main", [x]):
        with bb.dataflow():
            gate, up = (bb.emit(op.matmul(x, matrix)) for matrix in (a, b))
            out = bb.emit_output(op.multiply(bb.emit(op.nn.silu(gate)), up))
        bb.emit_func_output(out)
    assert kernels(lowered(bb.get())).total() == 2


def test_reshapes_that_change_nothing_vanish() -> None:
    bb, x = BlockBuilder(), Var("x", TensorStructInfo((4, 6), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x]):
        with bb.dataflow():
            once = bb.emit(op.reshape(bb.emit(op.reshape(x, (24,))), (4, 6)))
            out = bb.emit_output(bb.emit(op.reshape(bb.emit(op.nn.softmax(once)), (4, -1))))
        bb.emit_func_output(out)
    made = lowered(bb.get())
    assert kernels(made) == {"softmax": 1}
    data = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    np.testing.assert_allclose(run(made, data), run(bb.get(), data), rtol=1e-6)
    assert "R.reshape" not in made["main"].script()


def test_attention_is_scheduled_part_by_part() -> None:
    shape = (1, 32, 2, 16)
    q, k, v = (te.placeholder(shape, "float32", name) for name in "qkv")
    func = te.create_prim_func([q, k, v, topi.nn.attention(q, k, v)])
    parts = parts_of(func)
    assert [len(part.params) for part in parts] == [3, 2, 3]  # scores, their softmax, what is mixed by it
    again = put_together(func, parts)
    assert again is not None
    args = [np.random.default_rng(i).standard_normal(shape).astype("float32") for i in range(3)]
    outs = [np.zeros(shape, "float32") for _ in range(2)]
    for made, out in zip((func, again), outs, strict=True):
        interpret(made, *args, out)
    np.testing.assert_array_equal(*outs)
    assert not parts_of(te.create_prim_func([q, topi.nn.softmax(q, -1)]))  # one part

    bb, params = BlockBuilder(), [Var(name, TensorStructInfo(shape, "float32")) for name in "qkv"]  # type: ignore[arg-type]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(op.nn.attention(*params))
        bb.emit_func_output(out)
    machine = relax.VirtualMachine(relax.build(bb.get(), "llvm", exec_mode="compiled"), tvm.cpu())
    same_values(machine["main"](*args).numpy(), outs[0], 1e-4, 1e-5)
