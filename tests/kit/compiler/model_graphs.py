"""Models as graphs whose weights are parameters: their structure, for passes that look at no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var

Layer = Callable[[Any, "Maker"], Any]


class Maker:
    """Builds one model; weights become parameters as they are asked for."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()
        self.params: list[Var] = []

    def tensor(self, *shape: int) -> Var:
        self.params.append(Var(f"p{len(self.params)}", TensorStructInfo(shape, "float32")))  # type: ignore[arg-type]
        return self.params[-1]

    def emit(self, value: Any) -> Any:
        return self.builder.emit(value)

    def module(self, shape: tuple[int, ...], layers: Callable[[Maker, Any], Any]) -> IRModule:
        """The function "main" of the input, and then the weights."""
        x = self.tensor(*shape)
        with self.builder.function("main", attrs={"num_input": 1}):
            with self.builder.dataflow():
                out = self.builder.emit_output(layers(self, x))
            self.builder.emit_func_output(out, self.params)
        return self.builder.get()

    def conv(
        self, x: Any, channels: int, size: int = 3, stride: int = 1, groups: int = 1, act: Any = op.nn.relu
    ) -> Any:
        """A convolution with a bias, as batch norms leave it, and an activation."""
        inner = int(x.struct_info.dims[1].value)
        weight = self.tensor(channels, inner // groups, size, size)
        made = self.emit(op.nn.conv2d(x, weight, strides=stride, padding=size // 2, groups=groups))
        made = self.emit(op.add(made, self.tensor(channels, 1, 1)))
        return made if act is None else self.emit(act(made))

    def dense(self, x: Any, width: int) -> Any:
        inner = int(x.struct_info.dims[-1].value)
        product = self.emit(op.matmul(x, self.tensor(inner, width)))
        return self.emit(op.add(product, self.tensor(width)))

    def norm(self, x: Any) -> Any:
        width = int(x.struct_info.dims[-1].value)
        return self.emit(op.nn.layer_norm(x, self.tensor(width), self.tensor(width), axes=-1))


def resnet50(size: int = 224) -> IRModule:
    """ResNet-50."""

    def layers(maker: Maker, x: Any) -> Any:
        x = maker.emit(op.nn.max_pool2d(maker.conv(x, 64, 7, 2), 3, strides=2, padding=1))
        for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for number in range(count):
                stride = 2 if stage and not number else 1
                made = maker.conv(maker.conv(maker.conv(x, width, 1), width, 3, stride), 4 * width, 1, act=None)
                beside = x if number else maker.conv(x, 4 * width, 1, stride, act=None)
                x = maker.emit(op.nn.relu(maker.emit(op.add(made, beside))))
        return op.nn.softmax(maker.dense(maker.emit(op.mean(x, [2, 3])), 1000))

    return Maker().module((1, 3, size, size), layers)


def mobilenet_v2(size: int = 224) -> IRModule:
    """MobileNet V2: narrow convolutions, wide depthwise ones between them, sums beside."""
    relu6 = lambda x: op.clip(x, 0.0, 6.0)  # noqa: E731
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def layers(maker: Maker, x: Any) -> Any:
        x = maker.conv(x, 32, 3, 2, act=relu6)
        for times, channels, count, stride in blocks:
            for number in range(count):
                inner = int(x.struct_info.dims[1].value)
                wide = maker.conv(x, inner * times, 1, act=relu6) if times > 1 else x
                step = stride if number == 0 else 1
                deep = maker.conv(wide, inner * times, 3, step, groups=inner * times, act=relu6)
                made = maker.conv(deep, channels, 1, act=None)
                x = maker.emit(op.add(x, made)) if step == 1 and inner == channels else made
        x = maker.emit(op.mean(maker.conv(x, 1280, 1, act=relu6), [2, 3]))
        return maker.dense(x, 1000)

    return Maker().module((1, 3, size, size), layers)


def transformer(count: int = 12, length: int = 128, width: int = 768, heads: int = 12) -> IRModule:
    """The encoder layers of BERT-base."""

    def layers(maker: Maker, x: Any) -> Any:
        for _ in range(count):
            parts = [
                maker.emit(op.reshape(maker.dense(x, width), (1, length, heads, width // heads))) for _ in range(3)
            ]
            mixed = maker.emit(op.reshape(maker.emit(op.nn.attention(*parts)), (1, length, width)))
            x = maker.norm(maker.emit(op.add(x, maker.dense(mixed, width))))
            inner = maker.emit(op.nn.gelu(maker.dense(x, 4 * width)))
            x = maker.norm(maker.emit(op.add(x, maker.dense(inner, width))))
        return maker.dense(x, 2)

    return Maker().module((1, length, width), layers)


def decoder(count: int = 8, length: int = 64, width: int = 512, heads: int = 8, shared: int = 2) -> IRModule:
    """The layers of a decoder: `shared` heads of keys and values serve all of queries, and a gate multiplies."""

    def layers(maker: Maker, x: Any) -> Any:
        def product(x: Any, columns: int) -> Any:
            return maker.emit(op.matmul(x, maker.tensor(int(x.struct_info.dims[-1].value), columns)))

        def part(x: Any, number: int) -> Any:
            size = width // heads
            return maker.emit(op.reshape(product(x, number * size), (1, length, number, size)))

        def norm(x: Any) -> Any:
            return maker.emit(op.nn.rms_norm(x, maker.tensor(width), axes=-1))

        for _ in range(count):
            normal = norm(x)
            parts = [part(normal, number) for number in (heads, shared, shared)]
            mixed = maker.emit(op.nn.attention(*parts, causal_mask="TopLeft"))
            x = maker.emit(op.add(x, product(maker.emit(op.reshape(mixed, (1, length, width))), width)))
            normal = norm(x)
            gate = maker.emit(op.nn.silu(product(normal, 3 * width)))
            x = maker.emit(op.add(x, product(maker.emit(op.multiply(gate, product(normal, 3 * width))), width)))
        return product(norm(x), 1000)

    return Maker().module((1, length, width), layers)
