"""An ONNX file as a torch module: only the operators of the networks in benchmarks/model_parts."""

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F


class OnnxByTorch(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.inputs = [item.name for item in graph.input]
        self.output = graph.output[0].name
        self.steps = [(node.op_type, list(node.input), node.output[0], attributes(node)) for node in graph.node]
        self.lists = {}
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == "int64" or array.size == 1:
                self.lists[tensor.name] = array.tolist()
            else:
                self.register_buffer(tensor.name, torch.from_numpy(array.copy()))

    def forward(self, *given):
        values = dict(zip(self.inputs, given))
        for kind, inputs, output, attributes in self.steps:
            args = [values[name] if name in values else self.known(name) for name in inputs]
            values[output] = OPERATORS[kind](*args, **attributes)
        return values[self.output]

    def known(self, name):
        return self.lists[name] if name in self.lists else getattr(self, name)


def attributes(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def conv(x, w, b=None, *, strides, pads=(0, 0), group=1, **_):
    return F.conv2d(x, w, b, strides, pads[:2], 1, group)


OPERATORS = {
    "Add": lambda a, b: a + b,
    "BatchNormalization": lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b),
    "Clip": lambda x, low, high: torch.clamp(x, low, high),
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": conv,
    "Div": lambda a, b: a / b,
    "Flatten": lambda x: x.flatten(1),
    "Gather": lambda x, at, axis: x.select(axis, at) if isinstance(at, int) else F.embedding(at, x),
    "Gelu": F.gelu,
    "Gemm": lambda x, w, b, transB: F.linear(x, w, b),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "LayerNormalization": lambda x, g, b, axis, epsilon: F.layer_norm(x, x.shape[-1:], g, b, epsilon),
    "MatMul": torch.matmul,
    "MaxPool": lambda x, kernel_shape, strides, pads: F.max_pool2d(x, kernel_shape, strides, pads[:2]),
    "Relu": F.relu,
    "Reshape": lambda x, shape: x.reshape(shape),
    "Softmax": lambda x, axis: x.softmax(axis),
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(perm),
}
