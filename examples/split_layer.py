"""A transformer layer split over two workers, each with half of the heads and half of the inner units.

    python examples/split_layer.py              # two processes of this machine
    python examples/split_layer.py HOST PORT    # two devices that the tracker at HOST:PORT lends

Each worker holds half of the weights. What the halves compute is added up twice a layer, so the result is the whole
layer's, which is computed with numpy and compared.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import tunefarm as tvm
from tunefarm import relax, rpc
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tunefarm.runtime import disco

WIDTH, HEADS, TOKENS, INNER = 8, 2, 3, 12
HEAD = WIDTH // HEADS
AXIS = {"query": 1, "key": 1, "value": 1, "out": 0, "up": 1, "down": 0}  # along which a weight is split


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH), "out": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, INNER), "down": (INNER, WIDTH)}
    return {name: 0.3 * rng.standard_normal(shape, dtype="float32") for name, shape in shapes.items()}


def part(workers: int) -> tvm.IRModule:
    """Return what one of `workers` computes, in two functions: its part of the attention and of the perceptron."""
    bb, heads, inner = BlockBuilder(), HEADS // workers, INNER // workers

    def param(name: str, *shape: int) -> Var:
        return Var(name, TensorStructInfo(shape, "float32"))

    x, out = param("x", TOKENS, WIDTH), param("out", heads * HEAD, WIDTH)
    projections = [param(name, WIDTH, heads * HEAD) for name in ("query", "key", "value")]
    with bb.function("attention", [x, *projections, out]):
        split = [op.reshape(op.matmul(x, weight), (TOKENS, heads, HEAD)) for weight in projections]
        query, key, value = (bb.emit(op.permute_dims(each, [1, 0, 2])) for each in split)
        scores = op.nn.softmax(op.matmul(query, op.permute_dims(key, [0, 2, 1])) / relax.const(HEAD**0.5, "float32"))
        mixed = op.permute_dims(op.matmul(scores, value), [1, 0, 2])
        bb.emit_func_output(bb.emit(op.matmul(op.reshape(mixed, (TOKENS, heads * HEAD)), out)))
    x, up, down = param("x", TOKENS, WIDTH), param("up", WIDTH, inner), param("down", inner, WIDTH)
    with bb.function("perceptron", [x, up, down]):
        bb.emit_func_output(bb.emit(op.matmul(op.nn.relu(op.matmul(x, up)), down)))
    return bb.get()


def run(session: disco.Session, x: np.ndarray, held: dict[str, np.ndarray]) -> np.ndarray:
    """The layer, by the workers of a session."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "part.tunefarm")
        relax.build(part(session.num_workers), "llvm").export_library(path)
        module = session.load_vm_module(path)
        session.sync_all()
    mine = {
        name: session.scatter(np.stack(np.split(weight, session.num_workers, AXIS[name])))
        for name, weight in held.items()
    }
    for name, names in (("attention", ("query", "key", "value", "out")), ("perceptron", ("up", "down"))):
        given = session.broadcast(x)
        total = session.allreduce(
            module[name](given, *(mine[each] for each in names)), session.empty(x.shape, "float32")
        )
        result = tvm.nd.empty(x.shape, "float32")
        session.copy_from_worker_0(result, total)
        x = x + result.numpy()
    return x


def expected(x: np.ndarray, held: dict[str, np.ndarray]) -> np.ndarray:
    query, key, value = (
        (x @ held[name]).reshape(TOKENS, HEADS, HEAD).transpose(1, 0, 2) for name in ("query", "key", "value")
    )
    scores = np.exp(query @ key.transpose(0, 2, 1) / HEAD**0.5)
    mixed = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(TOKENS, WIDTH)
    x = x + mixed @ held["out"]
    return x + np.maximum(x @ held["up"], 0) @ held["down"]


def main(args: list[str]) -> None:
    rng = np.random.default_rng(1)
    x, held = rng.standard_normal((TOKENS, WIDTH), dtype="float32"), weights(rng)
    if args:
        tracker = rpc.connect_tracker(args[0], int(args[1]))
        session: disco.Session = disco.FarmSession([tracker.request("*") for _ in range(2)])
    else:
        session = disco.ProcessSession(2)
    with session:
        result = run(session, x, held)
    np.testing.assert_allclose(result, expected(x, held), rtol=1e-4, atol=1e-5)
    print(f"{session} computed the whole layer: {result[0, :4]} …")


if __name__ == "__main__":
    main(sys.argv[1:])
