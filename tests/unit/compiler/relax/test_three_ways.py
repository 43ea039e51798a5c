"""A transformer block, symbolic in batch and both lengths: by builder, by script and by rewriting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_hash
from compiler.relax import op
from compiler.relax.analysis import assert_well_formed
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.expr_functor import PyExprMutator, mutator
from compiler.relax.interp import run
from compiler.relax.nodes import Call, Function, TensorStructInfo, Var, const
from compiler.script.entry import from_source
from compiler.tir import nodes as n

SCRIPT = Path(__file__).parents[3] / "data" / "graph_scripts" / "transformer_block.txt"
HEADS, HEAD, INNER, EPSILON = 2, 4, 12, 1e-5
WIDTH = HEADS * HEAD

Emit = Callable[[Any], Any]


def _params() -> list[Var]:
    batch, length, memory = (n.Var(name, "int64") for name in ("batch", "length", "memory_length"))
    shapes: dict[str, tuple[Any, ...]] = {
        "x": (batch, length, WIDTH), "source": (batch, memory, WIDTH), "mask": (length, length),
        "cosine": (length, HEAD), "sine": (length, HEAD),
    }  # fmt: skip
    for part in ("encoder", "own", "cross"):
        shapes |= {f"{part}_norm": (WIDTH,)}
        shapes |= {f"{part}_{name}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
        shapes |= {f"{part}_{name}_bias": (WIDTH,) for name in ("query", "key", "value", "out")}
    shapes |= {"last_norm": (WIDTH,)}
    for part in ("encoder", "decoder"):
        shapes |= {f"{part}_mlp_norm": (WIDTH,), f"{part}_down": (INNER, WIDTH)}
        shapes |= {f"{part}_gate": (WIDTH, INNER), f"{part}_up": (WIDTH, INNER)}
    return [Var(name, TensorStructInfo(shape, "float32")) for name, shape in shapes.items()]


# ------------------------------------------------------------ what is written out, or left as one operator


def _rms_norm(emit: Emit, x: Any, weight: Any) -> Any:
    square = emit(op.multiply(x, x))
    mean = emit(op.mean(square, axis=-1, keepdims=True))
    scale = emit(op.rsqrt(emit(op.add(mean, const(EPSILON, "float32")))))
    return op.multiply(emit(op.multiply(x, scale)), weight)


def _softmax(emit: Emit, x: Any) -> Any:
    least = emit(op.subtract(x, emit(op.max(x, axis=-1, keepdims=True))))
    power = emit(op.exp(least))
    return op.divide(power, emit(op.sum(power, axis=-1, keepdims=True)))


def _silu(emit: Emit, x: Any) -> Any:
    power = emit(op.exp(emit(op.negative(x))))
    return op.divide(x, emit(op.add(power, const(1.0, "float32"))))


Forms = dict[str, Callable[..., Any]]
WRITTEN_OUT: Forms = {"norm": _rms_norm, "softmax": _softmax, "silu": _silu}
WHOLE: Forms = {
    "norm": lambda emit, x, weight: op.nn.rms_norm(x, weight, axes=-1, epsilon=EPSILON),
    "softmax": lambda emit, x: op.nn.softmax(x, axis=-1),
    "silu": lambda emit, x: op.nn.silu(x),
}


# ------------------------------------------------------------------------------------ the block


def _build(forms: Forms) -> IRModule:
    """An encoder of the source, then a decoder: attention to itself, with positions and a mask, and to the source."""
    bb = BlockBuilder()
    params = _params()
    named = {param.name_hint: param for param in params}
    emit = bb.emit

    def form(name: str, *data: Any) -> Any:
        return emit(forms[name](emit, *data))

    def heads(data: Any, part: str, name: str) -> Any:
        product = emit(op.matmul(data, named[f"{part}_{name}"]))
        biased = emit(op.add(product, named[f"{part}_{name}_bias"]))
        batch, length, _ = biased.struct_info.shape
        split = emit(op.reshape(biased, (batch, length, HEADS, HEAD)))
        return emit(op.permute_dims(split, [0, 2, 1, 3]))

    def rotated(data: Any) -> Any:
        halves = emit(op.split(data, 2, axis=-1))
        first, second = emit(halves[0]), emit(halves[1])
        turned = emit(op.concat([emit(op.negative(second)), first], axis=-1))
        kept = emit(op.multiply(data, named["cosine"]))
        return emit(op.add(kept, emit(op.multiply(turned, named["sine"]))))

    def attention(data: Any, part: str, others: Any = None) -> Any:
        normed = form("norm", data, named[f"{part}_norm"])
        source = normed if others is None else others
        masked = part == "own"
        query, key, value = heads(normed, part, "query"), heads(source, part, "key"), heads(source, part, "value")
        if masked:
            query, key = rotated(query), rotated(key)
        scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 1, 3, 2]))))
        scaled = emit(op.multiply(scores, const(HEAD**-0.5, "float32")))
        if masked:
            scaled = emit(op.add(scaled, named["mask"]))
        mixed = emit(op.matmul(form("softmax", scaled), value))
        joined = emit(op.permute_dims(mixed, [0, 2, 1, 3]))
        batch, length, _, _ = joined.struct_info.shape
        flat = emit(op.reshape(joined, (batch, length, WIDTH)))
        out = emit(op.add(emit(op.matmul(flat, named[f"{part}_out"])), named[f"{part}_out_bias"]))
        return emit(op.add(data, out))

    def perceptron(data: Any, part: str) -> tuple[Any, Any]:
        normed = form("norm", data, named[f"{part}_mlp_norm"])
        gate = form("silu", emit(op.matmul(normed, named[f"{part}_gate"])))
        inner = emit(op.multiply(gate, emit(op.matmul(normed, named[f"{part}_up"]))))
        return data, emit(op.matmul(inner, named[f"{part}_down"]))

    with bb.function("main", params):
        with bb.dataflow():
            memory = emit(op.add(*perceptron(attention(named["source"], "encoder"), "encoder")))
            seen = attention(attention(named["x"], "own"), "cross", memory)
            last = form("norm", emit(op.add(*perceptron(seen, "decoder"))), named["last_norm"])
            out = bb.emit_output(last)
        bb.emit_func_output(out)
    return bb.get()


@mutator
class _WriteOut(PyExprMutator):
    """Writes out the operators of a block that is built of whole ones."""

    def visit_call_(self, call: Call) -> Any:
        call = super().visit_call_(call)
        emit = self.builder_.emit
        match getattr(call.op, "name", None):
            case "relax.nn.rms_norm":
                return _rms_norm(emit, *call.args)
            case "relax.nn.softmax":
                return _softmax(emit, *call.args)
            case "relax.nn.silu":
                return _silu(emit, *call.args)
        return call


def _rewritten() -> IRModule:
    module = _build(WHOLE)
    main = module["main"]
    assert isinstance(main, Function)
    return IRModule({"main": _WriteOut(module).visit_expr(main)})


def test_three_ways_give_one_graph() -> None:
    built = _build(WRITTEN_OUT)
    assert_well_formed(built)
    text = SCRIPT.read_text()
    assert len(text.splitlines()) >= 200
    read = from_source(text)
    assert_structural_equal(read, built)
    rewritten = _rewritten()
    assert_well_formed(rewritten)
    assert_structural_equal(rewritten, built)
    assert structural_hash(built) == structural_hash(read) == structural_hash(rewritten)
    assert from_source(built.script()).script() == built.script()


def test_the_block_runs_for_other_lengths() -> None:
    built, whole = _build(WRITTEN_OUT), _build(WHOLE)
    main = built["main"]
    assert isinstance(main, Function)
    rng = np.random.default_rng(0)
    for batch, length, memory in ((1, 3, 2), (2, 1, 4)):
        sizes = {"batch": batch, "length": length, "memory_length": memory}
        arrays = []
        for param in main.params:
            dims = [sizes[d.name] if isinstance(d, n.Var) else int(d) for d in param.struct_info.dims]
            arrays.append(rng.standard_normal(dims, dtype="float32"))
        got: Any = run(built, *arrays)
        assert got.shape == (batch, length, WIDTH)
        np.testing.assert_allclose(got, run(whole, *arrays), rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]
