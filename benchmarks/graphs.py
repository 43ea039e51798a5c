"""How long each pass over graphs takes on two whole models, and how that grows with the size of a model.

    python benchmarks/graphs.py
    python benchmarks/graphs.py --only transformer --rounds 9
    python benchmarks/graphs.py --growth 6 12 24

The models are ResNet-50 and a transformer of 24 layers. Medians of CPU time, after one round that is not counted. With
`--growth`, every pass of the default pipeline runs on transformers of these numbers of layers. The last column is the
power of the size by which the time grows: 1.0 is linear.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Expr, TensorStructInfo, Var
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PIPELINES
from tunefarm.relax import transform


class Weights:
    """The parameters of a model, in the order in which it asks for them."""

    def __init__(self, *inputs: Var) -> None:
        self.params = [*inputs]

    def __call__(self, *shape: int) -> Var:
        made = Var(f"w{len(self.params)}", TensorStructInfo(shape, "float32"))
        self.params.append(made)
        return made


def resnet50() -> IRModule:
    """ResNet-50 for one picture of 224 × 224 pixels, its batch norms not folded."""
    x = Var("x", TensorStructInfo((1, 3, 224, 224), "float32"))
    weights, bb = Weights(x), BlockBuilder()

    def convolution(data: Expr, inputs: int, outputs: int, size: int, stride: int, relu: bool = True) -> Expr:
        kernel = weights(outputs, inputs, size, size)
        data = bb.emit(op.nn.conv2d(data, kernel, strides=stride, padding=size // 2))
        norm = [weights(outputs) for _ in range(4)]
        data = bb.emit(bb.emit(op.nn.batch_norm(data, *norm, axis=1, training=False))[0])
        return bb.emit(op.nn.relu(data)) if relu else data

    with bb.function("main"):
        with bb.dataflow():
            data = convolution(x, 3, 64, 7, 2)
            data = bb.emit(op.nn.max_pool2d(data, (3, 3), strides=2, padding=1))
            inputs = 64
            for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
                for block in range(blocks):
                    step = stride if block == 0 else 1
                    inner = convolution(convolution(data, inputs, width, 1, 1), width, width, 3, step)
                    inner = convolution(inner, width, 4 * width, 1, 1, relu=False)
                    if block == 0:
                        data = convolution(data, inputs, 4 * width, 1, step, relu=False)
                    data = bb.emit(op.nn.relu(bb.emit(op.add(inner, data))))
                    inputs = 4 * width
            product = bb.emit(op.matmul(bb.emit(op.mean(data, [2, 3])), weights(2048, 1000)))
            result = bb.emit_output(op.add(product, weights(1000)))
        bb.emit_func_output(result, weights.params)
    return bb.get()


def transformer(layers: int = 24, tokens: int = 128, width: int = 1024, heads: int = 16) -> IRModule:
    """The layers of a transformer encoder for one sentence of `tokens`."""
    x = Var("x", TensorStructInfo((1, tokens, width), "float32"))
    weights, bb = Weights(x), BlockBuilder()

    def linear(data: Expr, inputs: int, outputs: int) -> Expr:
        turned = bb.emit(op.permute_dims(weights(outputs, inputs)))
        return bb.emit(op.add(bb.emit(op.matmul(data, turned)), weights(outputs)))

    def head(data: Expr) -> Expr:
        parts = bb.emit(op.reshape(linear(data, width, width), (1, tokens, heads, width // heads)))
        return bb.emit(op.permute_dims(parts, [0, 2, 1, 3]))

    with bb.function("main"):
        with bb.dataflow():
            data: Expr = x
            for _ in range(layers):
                normal = bb.emit(op.nn.layer_norm(data, weights(width), weights(width), axes=[-1]))
                query, key, value = head(normal), head(normal), head(normal)
                scores = bb.emit(op.matmul(query, bb.emit(op.permute_dims(key, [0, 1, 3, 2]))))
                shares = bb.emit(op.nn.softmax(bb.emit(op.divide(scores, 8.0))))
                mixed = bb.emit(op.permute_dims(bb.emit(op.matmul(shares, value)), [0, 2, 1, 3]))
                mixed = bb.emit(op.reshape(mixed, (1, tokens, width)))
                data = bb.emit(op.add(data, linear(mixed, width, width)))
                normal = bb.emit(op.nn.layer_norm(data, weights(width), weights(width), axes=[-1]))
                wide = bb.emit(op.nn.gelu(linear(normal, width, 4 * width)))
                data = bb.emit(op.add(data, linear(wide, 4 * width, width)))
            result = bb.emit_output(data)
        bb.emit_func_output(result, weights.params)
    return bb.get()


MODELS: dict[str, Callable[[], IRModule]] = {"resnet50": resnet50, "transformer": transformer}
PASSES = ("CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination", "LegalizeOps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", type=int, nargs="+", metavar="LAYERS", help="sizes, smallest first")
    args = parser.parse_args()
    if args.growth:
        growth(args.growth, args.rounds)
        return
    for name, make in MODELS.items():
        if args.only not in name:
            continue
        print(f"{name + ', made':40}{seconds(make, args.rounds):8.3f} s", flush=True)
        module = make()
        for title in PASSES:
            made = getattr(transform, title)()
            taken = seconds(lambda made=made, module=module: made(module), args.rounds)
            print(f"{name + ', ' + title:40}{taken:8.3f} s", flush=True)
            module = made(module)


def growth(sizes: Sequence[int], rounds: int) -> None:
    """Print the time of every pass of the default pipeline for transformers of several sizes."""
    modules = [transformer(layers) for layers in sizes]
    print(f"{'layers':32}{''.join(f'{size:>10}' for size in sizes)}    growth", flush=True)
    for function in PIPELINES["default"]:
        passes = [pass_of(function).make() for _ in sizes]
        taken = [seconds(partial(made, module), rounds) for made, module in zip(passes, modules)]
        modules = [made(module) for made, module in zip(passes, modules)]
        power = math.log(max(taken[-1], 1e-6) / max(taken[0], 1e-6)) / math.log(sizes[-1] / sizes[0])
        columns = "".join(f"{value:10.4f}" for value in taken)
        print(f"{pass_of(function).title:32}{columns}{power:10.2f}", flush=True)


def seconds(call: Callable[[], object], rounds: int) -> float:
    """The median CPU time of `call`, which has run once before."""
    call()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return statistics.median(found)


if __name__ == "__main__":
    main()
