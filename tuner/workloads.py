"""Named workloads: the kernels a command line, a spec file or a REST call can ask for by a short text.

`matmul:512,512,512:float32` is an operator, its sizes and a dtype. A spec is plain data (JSON), goes into
the record store beside the function it stands for, and builds the same function everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler import topi
from compiler.dtype import parse_dtype
from compiler.errors import TunefarmError
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor, placeholder
from compiler.tir.nodes import PrimFunc
from tuner.errors import WorkloadError


@dataclass(frozen=True)
class WorkloadSpec:
    """An operator of the table below, its sizes in order, and the dtype of its inputs."""

    op: str
    args: tuple[int, ...]
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"{self.op}:{','.join(map(str, self.args))}:{self.dtype}"

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "args": list(self.args), "dtype": self.dtype}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> WorkloadSpec:
        """The inverse of `to_json`. Raises WorkloadError on anything else."""
        try:
            args = tuple(int(a) for a in data["args"])
            return WorkloadSpec(str(data["op"]), args, str(data.get("dtype", "float32")))
        except (KeyError, TypeError, ValueError) as error:
            raise WorkloadError(f"not a workload: {data!r} ({error})", hint=_usage()) from None

    @staticmethod
    def parse(text: str) -> WorkloadSpec:
        """`op:sizes[:dtype]`, for example `matmul:512,512,512:float32`. Raises WorkloadError."""
        parts = text.strip().split(":")
        if parts in ([op] for op in OPERATORS):
            raise WorkloadError(f"{text!r} has no sizes", hint=OPERATORS[parts[0]].usage(parts[0]))
        if len(parts) not in (2, 3) or parts[0] not in OPERATORS:
            raise WorkloadError(f"no workload is called {text!r}", hint=_usage())
        try:
            sizes = tuple(int(p) for p in parts[1].split(","))
        except ValueError:
            raise WorkloadError(f"the sizes in {text!r} are not whole numbers", hint=_usage()) from None
        spec = WorkloadSpec(parts[0], sizes, parts[2] if len(parts) == 3 else "float32")
        spec.check()
        return spec

    def check(self) -> None:
        """Raise WorkloadError when the operator is unknown or its sizes are impossible."""
        operator = OPERATORS.get(self.op)
        if operator is None:
            raise WorkloadError(f"no operator is called {self.op!r}", hint=_usage())
        least, most = len(operator.sizes), len(operator.sizes) + len(operator.optional)
        if not least <= len(self.args) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise WorkloadError(f"{self.op} takes {count} sizes, got {len(self.args)}", hint=operator.usage(self.op))
        if any(a < 0 for a in self.args) or any(a == 0 for a in self.args[:least]):
            raise WorkloadError(f"sizes of {self} must be positive", hint=operator.usage(self.op))
        try:
            parse_dtype(self.dtype)
        except TunefarmError as error:
            raise WorkloadError(error.message, hint=error.hint) from None

    def tensors(self) -> list[Tensor]:
        """Inputs then outputs, as te tensors."""
        self.check()
        return OPERATORS[self.op].build(self)

    def prim_func(self) -> PrimFunc:
        """The function, named after the operator."""
        return create_prim_func(self.tensors(), name=self.op)


@dataclass(frozen=True)
class WorkloadOperator:
    """How a named workload reads its sizes and what it computes."""

    sizes: tuple[str, ...]
    build: Callable[[WorkloadSpec], list[Tensor]]
    optional: Mapping[str, int] = field(default_factory=dict)

    def usage(self, name: str) -> str:
        optional = "".join(f"[,{key}={value}]" for key, value in self.optional.items())
        return f"{name}:{','.join(self.sizes)}{optional}:dtype"

    def optional_values(self, spec: WorkloadSpec) -> list[int]:
        given = list(spec.args[len(self.sizes) :])
        return given + list(self.optional.values())[len(given) :]


def _usage() -> str:
    forms = "\n    ".join(operator.usage(name) for name, operator in OPERATORS.items())
    return f"a workload is one of\n    {forms}\n  for example matmul:512,512,512:float32"


def _summed_in(spec: WorkloadSpec) -> str | None:
    """Return the result's dtype, if it is not the inputs'.
    Sums of products of bytes are not bytes, and those of 16-bit floats would lose their small terms. Matrix units
    sum the same way."""
    match spec.dtype:
        case "int8" | "uint8":
            return "int32"
        case "float16" | "bfloat16":
            return "float32"
        case _:
            return None


def _matmul(spec: WorkloadSpec) -> list[Tensor]:
    m, n, k = spec.args
    a = placeholder((m, k), spec.dtype, name="A")
    b = placeholder((k, n), spec.dtype, name="B")
    return [a, b, topi.matmul(a, b, out_dtype=_summed_in(spec))]


def _batch_matmul(spec: WorkloadSpec) -> list[Tensor]:
    batch, m, n, k = spec.args
    a = placeholder((batch, m, k), spec.dtype, name="A")
    b = placeholder((batch, k, n), spec.dtype, name="B")
    return [a, b, topi.batch_matmul(a, b, transpose_b=False, out_dtype=_summed_in(spec))]


def _dense(spec: WorkloadSpec) -> list[Tensor]:
    m, n, k = spec.args
    data = placeholder((m, k), spec.dtype, name="data")
    weight = placeholder((n, k), spec.dtype, name="weight")
    return [data, weight, topi.dense(data, weight, out_dtype=_summed_in(spec))]


def _conv2d(spec: WorkloadSpec) -> list[Tensor]:
    batch, channels, height, width, filters, kernel_h, kernel_w = spec.args[:7]
    stride, padding = OPERATORS["conv2d"].optional_values(spec)
    data = placeholder((batch, channels, height, width), spec.dtype, name="data")
    weight = placeholder((filters, channels, kernel_h, kernel_w), spec.dtype, name="weight")
    dtype = _summed_in(spec)
    return [data, weight, topi.conv2d_nchw(data, weight, stride=stride, padding=padding, dilation=1, out_dtype=dtype)]


def _depthwise_conv2d(spec: WorkloadSpec) -> list[Tensor]:
    batch, channels, height, width, kernel_h, kernel_w = spec.args[:6]
    stride, padding = OPERATORS["depthwise_conv2d"].optional_values(spec)
    data = placeholder((batch, channels, height, width), spec.dtype, name="data")
    weight = placeholder((channels, 1, kernel_h, kernel_w), spec.dtype, name="weight")
    dtype = _summed_in(spec)
    found = topi.nn.depthwise_conv2d_nchw(data, weight, stride=stride, padding=padding, dilation=1, out_dtype=dtype)
    return [data, weight, found]


def _softmax(spec: WorkloadSpec) -> list[Tensor]:
    data = placeholder(spec.args, spec.dtype, name="data")
    return [data, topi.nn.softmax(data, axis=-1)]


def _layer_norm(spec: WorkloadSpec) -> list[Tensor]:
    _rows, width = spec.args
    data = placeholder(spec.args, spec.dtype, name="data")
    gamma, beta = (placeholder((width,), spec.dtype, name=name) for name in ("gamma", "beta"))
    return [data, gamma, beta, topi.nn.layer_norm(data, gamma, beta, axis=(1,))]


def _row_sum(spec: WorkloadSpec) -> list[Tensor]:
    data = placeholder(spec.args, spec.dtype, name="data")
    return [data, topi.sum(data, axis=1)]


def _copy(spec: WorkloadSpec) -> list[Tensor]:
    data = placeholder(spec.args, spec.dtype, name="data")
    return [data, topi.identity(data)]


def _triad(spec: WorkloadSpec) -> list[Tensor]:
    """STREAM's (McCalpin 1995): a[i] = b[i] + 3 c[i]."""
    b, c = (placeholder(spec.args, spec.dtype, name=name) for name in ("b", "c"))
    return [b, c, topi.add(b, topi.multiply(c, 3.0))]


OPERATORS: dict[str, WorkloadOperator] = {
    "matmul": WorkloadOperator(("M", "N", "K"), _matmul),
    "batch_matmul": WorkloadOperator(("B", "M", "N", "K"), _batch_matmul),
    "dense": WorkloadOperator(("M", "N", "K"), _dense),
    "conv2d": WorkloadOperator(("N", "C", "H", "W", "K", "R", "S"), _conv2d, optional={"stride": 1, "padding": 1}),
    "depthwise_conv2d": WorkloadOperator(
        ("N", "C", "H", "W", "R", "S"), _depthwise_conv2d, optional={"stride": 1, "padding": 1}
    ),
    "softmax": WorkloadOperator(("M", "N"), _softmax),
    "layer_norm": WorkloadOperator(("M", "N"), _layer_norm),
    "row_sum": WorkloadOperator(("M", "N"), _row_sum),
    "copy": WorkloadOperator(("N",), _copy),
    "triad": WorkloadOperator(("N",), _triad),
}
