"""An ONNX file as a torch module: only the operators of the networks in benchmarks/model_parts."""

import onnx
import torch
import torch._inductor.config
from onnx import helper, numpy_helper
from torch.nn import functional as F


def compiled(path):
    """The file's model through torch.compile, set as PyTorch advises for inference on CPUs.
    Weights are constants, laid out ahead ("freezing"), and kernels are chosen by timing them ("max-autotune")."""
    torch._inductor.config.freezing = True
    return torch.compile(OnnxByTorch(path).eval(), mode="max-autotune")


class OnnxByTorch(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.inputs = [item.name for item in graph.input]
        self.outputs = [item.name for item in graph.output]
        self.steps = [(node.op_type, list(node.input), node.output[0], attributes(node)) for node in graph.node]
        self.lists = {}
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == "int64" or array.size == 1:
                self.lists[tensor.name] = array.tolist()
            else:
                self.register_buffer(tensor.name, torch.from_numpy(array.copy()))
        for at, (kind, inputs, output, sizes) in enumerate(self.steps):
            if kind == "MatMulNBits":
                self.steps[at] = kind, [inputs[0], *self.pack(inputs[1], inputs[2], **sizes)], output, sizes

    def forward(self, *given):
        values = dict(zip(self.inputs, given))
        for kind, inputs, output, attributes in self.steps:
            args = [values[name] if name in values else self.known(name) for name in inputs]
            values[output] = OPERATORS[kind](*args, **attributes)
        made = [values[name] for name in self.outputs]
        return made[0] if len(made) == 1 else made

    def pack(self, numbers, scales, *, K, N, block_size, **_):
        """Bring weights of 4 bits into the layout of torch's own product. The names of what it takes."""
        packed = getattr(self, numbers)
        whole = torch.stack([packed & 15, packed >> 4], dim=-1).reshape(N, K).to(torch.int32)
        made = torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole, 1)
        scale = getattr(self, scales).reshape(N, K // block_size).T
        self.register_buffer(f"{numbers}_packed", made)
        self.register_buffer(f"{numbers}_scale", torch.stack([scale, torch.zeros_like(scale)], -1).contiguous())
        delattr(self, numbers)
        return f"{numbers}_packed", f"{numbers}_scale"

    def known(self, name):
        return self.lists[name] if name in self.lists else getattr(self, name)


def attributes(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def conv(x, w, b=None, *, strides=(1, 1), pads=(0, 0), group=1, **_):
    return F.conv2d(x, w, b, strides, pads[:2], 1, group)


def cut(x, starts, ends, axes):
    for begin, end, axis in zip(starts, ends, axes):
        x = x.narrow(axis, begin, min(end, x.shape[axis]) - begin)
    return x


def four_bits(x, packed, scale, *, K, N, block_size, **_):
    rows = x.reshape(-1, K).contiguous()
    return torch.ops.aten._weight_int4pack_mm_for_cpu(rows, packed, block_size, scale).reshape(*x.shape[:-1], N)


OPERATORS = {
    "Add": lambda a, b: a + b,
    "AveragePool": lambda x, kernel_shape, strides: F.avg_pool2d(x, kernel_shape, strides),
    "BatchNormalization": lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b),
    "Clip": lambda x, low, high: torch.clamp(x, low, high),
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": conv,
    "Div": lambda a, b: a / b,
    "Expand": lambda x, shape: x.expand(shape),
    "Flatten": lambda x: x.flatten(1),
    "Gather": lambda x, at, axis: x.select(axis, at) if isinstance(at, int) else F.embedding(at, x),
    "Gelu": F.gelu,
    "Gemm": lambda x, w, b, transB: F.linear(x, w, b),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda x, alpha, beta: F.hardsigmoid(x),  # alpha is 1/6 and beta 1/2
    "HardSwish": F.hardswish,
    "LayerNormalization": lambda x, g, b, axis, epsilon: F.layer_norm(x, x.shape[-1:], g, b, epsilon),
    "MatMul": torch.matmul,
    "MatMulNBits": four_bits,
    "MaxPool": lambda x, kernel_shape, strides, pads=(0, 0): F.max_pool2d(x, kernel_shape, strides, pads[:2]),
    "Mul": lambda a, b: a * b,
    "Neg": torch.neg,
    "ReduceMean": lambda x, axes, keepdims: x.mean(axes, keepdim=bool(keepdims)),
    "Relu": F.relu,
    "Reshape": lambda x, shape: x.reshape(shape),
    "Sigmoid": torch.sigmoid,
    "Slice": cut,
    "Softmax": lambda x, axis: x.softmax(axis),
    "Sqrt": torch.sqrt,
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(perm),
    "Unsqueeze": lambda x, axes: x.unsqueeze(axes[0]),
}
