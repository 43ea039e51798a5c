"""A decoder that makes 1,000 tokens one by one, with a cache that lives from call to call."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op

TOKENS, WIDTH, WORDS = 1000, 16, 50


def tensor(*shape: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(relax.ShapeExpr(shape), dtype)


def table(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32") / 4


def decoder() -> Any:
    """main(word, cache, at) gives the scores of the next word; the cache gets a row."""
    bb = BlockBuilder()
    update = bb.add_func(in_place(), "put_row")
    word, cache = Var("word", tensor(1, dtype="int64")), Var("cache", tensor(TOKENS, WIDTH))
    seen = tir.Var("seen", "int64")
    position = Var("position", relax.ShapeStructInfo([seen]))
    with bb.function("main", [word, cache, position]):
        embedded = bb.emit(op.take(relax.const(table(WORDS, WIDTH)), word, axis=0))
        query = bb.emit(op.matmul(embedded, relax.const(table(WIDTH, WIDTH))))
        filled = bb.emit(relax.call_tir_inplace(update, [embedded, cache], 1, tensor(TOKENS, WIDTH), [seen - 1]))
        rows = bb.emit(op.strided_slice(filled, [0], [0], [seen]))
        shares = bb.emit(op.nn.softmax(bb.emit(op.matmul(query, bb.emit(op.permute_dims(rows))))))
        mixed = bb.emit(op.add(bb.emit(op.matmul(shares, rows)), embedded))
        scores = bb.emit(op.matmul(mixed, relax.const(table(WIDTH, WORDS))))
        bb.emit_func_output(bb.emit(relax.Tuple((scores, filled))))
    return bb.get()


def in_place() -> tir.PrimFunc:
    from tunefarm.script import tir as T

    @T.prim_func
    def put_row(row: T.Buffer((1, 16), "float32"), cache: T.Buffer((1000, 16), "float32"), at: T.int64):  # type: ignore[no-untyped-def,valid-type]
        T.func_attr({"tir.noalias": True})
        for j in range(16):
            with T.block("put"):
                v = T.axis.spatial(16, j)
                cache[at, v] = row[0, v]

    return put_row


def reference() -> list[int]:
    words, query, out = table(WORDS, WIDTH), table(WIDTH, WIDTH), table(WIDTH, WORDS)
    rows: list[Any] = []
    word, said = 1, []
    for _ in range(TOKENS):
        rows.append(words[word])
        seen = np.stack(rows)
        scores = (words[word] @ query) @ seen.T
        shares = np.exp(scores - scores.max())
        mixed = (shares / shares.sum()) @ seen + words[word]
        word = int(np.argmax(mixed @ out))
        said.append(word)
    return said


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
def test_a_thousand_tokens(exec_mode: str) -> None:
    executable = relax.build(decoder(), "llvm", exec_mode=exec_mode)
    assert executable.program.interpreted == ()
    vm = relax.VirtualMachine(executable, tvm.cpu())
    cache = tvm.nd.array(np.zeros((TOKENS, WIDTH), "float32"))
    word, said = 1, []
    for seen in range(1, TOKENS + 1):
        vm.set_input("main", np.array([word]), cache, tvm.runtime.ShapeTuple([seen]))
        vm.invoke_stateful("main")
        scores, kept = vm.get_outputs("main")
        assert kept is cache  # written where it is
        word = int(np.argmax(scores.numpy()))
        said.append(word)
    assert said == reference()
