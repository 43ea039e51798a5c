"""Creation, movement, positions, products and quantisation: StructInfo, kernels and numpy agree."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.graph import build_graph
from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import PrimValue, TensorStructInfo, Var
from compiler.relax.op.core.registry import OPERATORS
from compiler.runtime.core.device import device
from compiler.runtime.vm.machine import VirtualMachine
from compiler.tir import nodes as n
from tests.kit.compiler.relax_gradients import check_gradient
from tests.kit.compiler.relax_ops import SIZES, WITHOUT_ZERO, Case, check, check_text

SOME = ("float32", "int64", "bool", "bfloat16")
RNG = np.random.default_rng(5)


def below(size: int):
    """Positions below `size`, or counted from the end."""
    return lambda a: RNG.integers(-size, size, a.shape) if size else a * 0


def prim(value: float) -> PrimValue:
    return PrimValue(n.FloatImm("float32", value))


def scattered(a, i, u):
    out = a.copy()
    for point in np.ndindex(i.shape):
        out[i[point], point[1]] += u[point]
    return out


def scattered_points(a, i, u):
    out = a.copy()
    for point in np.ndindex(i.shape[:-1]):
        out[tuple(i[point])] = u[point]
    return out


def put(a, i, v):
    out = a.copy()
    out[i] = v
    return out


def sliced(a, v):
    out = a.copy()
    out[:, 1:4:2] = v
    return out


def turned(a, lengths):
    out = a.copy()
    for row, old, length in zip(out, a, np.minimum(lengths, a.shape[1])):
        row[:length] = old[:length][::-1]
    return out


CREATION = [
    Case("full", lambda x: op.full((3, 2), x), lambda a: np.full((3, 2), a), [""], ("float32", "int32")),
    Case("full as", lambda x: op.full((3, 2), x, "float64"), lambda a: np.full((3, 2), a), [""], ("int32",)),
    Case("full_like", op.full_like, np.full_like, ["n m", ""], SOME),
    Case("zeros_like", op.zeros_like, np.zeros_like, ["n m"], SOME),
    Case("ones_like", lambda x: op.ones_like(x, "int32"), np.ones_like, ["n m"], SOME),
    Case("eye_like", lambda x: op.eye_like(x, 1), lambda a: np.eye(*a.shape, 1), ["n m"]),
    Case("tril", lambda x: op.tril(x, -1), lambda a: np.tril(a, -1), ["k n m"], SOME),
    Case("triu", op.triu, np.triu, ["k n m"], SOME),
]  # fmt: skip
def blocked(a):
    """Rows in blocks of 4, padded by 2."""
    full = np.concatenate([a, np.full((-len(a) % 4, *a.shape[1:]), 2, a.dtype)])
    return full.reshape(-1, 4, *a.shape[1:]).transpose(0, 2, 1)


MOVEMENT = [
    Case("layout_transform", lambda x: op.layout_transform(x, lambda i, j, k: (k, i, j)),
         lambda a: a.transpose(2, 0, 1), ["n m k"], SOME),
    Case("astype", lambda x: op.astype(x, "int32"), lambda a: a.astype("int32"), ["n m"], ("float32", "int8", "bool")),
    Case("permute_dims", lambda x: op.permute_dims(x, [2, 0, 1]), lambda a: a.transpose(2, 0, 1), ["n m k"], SOME),
    Case("permute_dims reversed", op.permute_dims, np.transpose, ["n m k"]),
    Case("broadcast_to", lambda x: op.broadcast_to(x, (3, 4, 5)), lambda a: np.broadcast_to(a, (3, 4, 5)),
         ["4 1"], SOME),
    Case("collapse_sum_to", lambda x: op.collapse_sum_to(x, (1, 5)), lambda a: a.sum((0, 1))[None], ["3 4 5"],
         ("float32", "int32"), tolerance=1e-4),
    Case("collapse_sum_like", op.collapse_sum_like, lambda a, b: a.sum((0, 1))[None], ["n m k", "1 k"], tolerance=1e-4),
    Case("expand_dims", lambda x: op.expand_dims(x, [0, -1]), lambda a: a[None, ..., None], ["n m"], SOME),
    Case("squeeze", lambda x: op.squeeze(x, [0, -1]), lambda a: a[0, ..., 0], ["1 n m 1"], SOME),
    Case("flatten", op.flatten, np.ravel, ["n m k"], SOME),
    Case("reverse_sequence", lambda x, n: op.reverse_sequence(x, n, 1, 0), turned, ["n m k", "n"], SOME,
         fixed={1: "int32"}, values={1: lambda a: np.abs(a) % 4}),
    Case("flip", lambda x: op.flip(x, 1), lambda a: np.flip(a, 1), ["n m"], SOME),
    Case("repeat", lambda x: op.repeat(x, 2, 0), lambda a: np.repeat(a, 2, 0), ["n m"], SOME),
    Case("repeat flat", lambda x: op.repeat(x, 3), lambda a: np.repeat(a, 3), ["n m"]),
    Case("tile", lambda x: op.tile(x, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 3)), ["n m"], SOME),
    Case("concat", lambda x, y: op.concat([x, y], 1), lambda a, b: np.concatenate([a, b], 1), ["n m", "n k"], SOME),
    Case("stack", lambda x, y: op.stack([x, y], -1), lambda a, b: np.stack([a, b], -1), ["n m", "n m"], SOME),
    Case("split", lambda x: op.split(x, 2, 1), lambda a: np.split(a, 2, 1), ["n 6"], SOME),
    Case("split unevenly", lambda x: op.split(x, 3, 0), lambda a: [a[:3], a[3:6], a[6:]], ["7"]),
    Case("split at", lambda x: op.split(x, [1, 4], -1), lambda a: np.split(a, [1, 4], -1), ["n 6"]),
    Case("meshgrid", lambda x, y: op.meshgrid([x, y], "xy"), lambda a, b: np.meshgrid(a, b), ["n", "m"], SOME),
]  # fmt: skip
POSITIONS = [
    Case("take", lambda x, i: op.take(x, i, 1, "wrap"), lambda a, i: np.take(a, i, 1, mode="wrap"), ["n 4 m", "k j"],
         ("float32", "bool"), fixed={1: "int64"}),
    Case("take clip", lambda x, i: op.take(x, i, mode="clip"), lambda a, i: np.take(a, i, mode="clip"), ["5", "k"],
         fixed={1: "int32"}),
    Case("strided_slice", lambda x: op.strided_slice(x, [0, 1], [1, -1], [100, -4], [2, -1]),
         lambda a: a[1:100:2, -1:-4:-1], ["n 5"], SOME),
    Case("strided_slice of all", lambda x: op.strided_slice(x, [0], [0], [2**31 - 1]), lambda a: a, ["n m"]),
    Case("gather_elements", lambda x, i: op.gather_elements(x, i, 0), lambda a, i: np.take_along_axis(a, i, 0),
         ["4 m", "n m"], ("float32", "int8"), fixed={1: "int64"}, values={1: below(4)}),
    Case("gather_nd", op.gather_nd, lambda a, i: a[i[..., 0], i[..., 1]], ["4 4 m", "n k 2"], ("float32",),
         fixed={1: "int64"}, values={1: below(4)}),
    Case("index_tensor", lambda x, i, j: op.index_tensor(x, [i, j]), lambda a, i, j: a[i, j], ["4 4 m", "n 1", "k"],
         fixed={1: "int64", 2: "int32"}, values={1: below(4), 2: below(4)}),
    Case("index_put", lambda x, i, v: op.index_put(x, [i], v), put, ["4 m", "2", "2 m"], fixed={1: "int64"},
         values={1: lambda a: np.array([2, -1])}),
    Case("scatter_elements", lambda x, i, u: op.scatter_elements(x, i, u, 0, "add"), scattered, ["4 m", "n m", "n m"],
         ("float32", "int32"), fixed={1: "int64"}, values={1: below(4)}, tolerance=1e-4),
    Case("scatter_nd", op.scatter_nd, scattered_points, ["4 4 m", "k 2", "k m"], fixed={1: "int64"},
         values={1: lambda a: np.stack([np.arange(len(a)) % 4, np.arange(len(a)) // 4], 1)}),
    Case("slice_scatter", lambda x, v: op.slice_scatter(x, v, 1, 4, 2, 1), sliced, ["n 5", "n 2"]),
    Case("one_hot", lambda i: op.one_hot(i, prim(2), prim(-1), 4, 1),
         lambda a: np.where(a[:, None] == np.arange(4)[None, :, None], 2.0, -1.0), ["n m"], ("int32", "int64")),
]  # fmt: skip
PRODUCTS = [
    Case("matmul", op.matmul, np.matmul, ["k n m", "m j"], ("float32", "float64", "int32"), tolerance=1e-4),
    Case("matmul of unsigned and signed", lambda x, y: op.matmul(x, y, "int32"),
         lambda a, b: a.astype("int32") @ b.astype("int32"), ["n m", "m j"], ("uint8",), fixed={1: "int8"}),
    Case("outer", op.outer, np.outer, ["n", "m"], ("float32", "int32")),
    Case("einsum", lambda x, y: op.einsum([x, y], "bij,jk->bik"), lambda a, b: np.einsum("bij,jk->bik", a, b),
         ["n 3 m", "m k"], tolerance=1e-4),
    Case("quantize", lambda x, s, z: op.quantize(x, s, z, 0),
         lambda a, s, z: np.clip(np.round(a / s[:, None]) + z[:, None], -128, 127), ["n m", "n", "n"],
         fixed={2: "int8"}, values={1: lambda a: np.abs(a) + np.float32(0.1)}),
    Case("dequantize", op.dequantize, lambda a, s, z: (a.astype(int) - z) * s, ["n m", "", ""], ("int8", "uint8"),
         fixed={1: "float32", 2: "int8"}),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CREATION, *MOVEMENT, *POSITIONS, *PRODUCTS], ids=lambda case: case.name)
def test_struct_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def info_of_call(call):
    entry = OPERATORS[call.op.name]
    return entry.struct_info(entry.normalized(call))


def test_ranges_and_windows() -> None:
    size = n.Var("n", "int64")
    assert info_of_call(op.arange(5)) == TensorStructInfo((5,), "int64")
    assert info_of_call(op.arange(1, 2, 0.25)) == TensorStructInfo((4,), "float32")
    assert info_of_call(op.arange(0, size)) == TensorStructInfo((size,), "int64")
    assert info_of_call(op.eye(3, 4, 1, "int32")) == TensorStructInfo((3, 4), "int32")
    assert info_of_call(op.zeros((size, 3), "int8")) == TensorStructInfo((size, 3), "int8")
    assert info_of_call(op.hamming_window(7, True, 0.54, 0.46, "float32")) == TensorStructInfo((7,), "float32")


def test_results_of_unknown_size() -> None:
    x = Var("x", TensorStructInfo((3, 4), "int32"))
    a = np.array([[3, 1, 3, 0], [1, 1, 0, 2], [0, 0, 5, 3]], "int32")
    assert info_of_call(op.nonzero(x)) == TensorStructInfo(dtype="int64", ndim=2)
    np.testing.assert_array_equal(OPERATORS["relax.nonzero"].host(a), np.nonzero(a))
    assert info_of_call(op.unique(x)) == TensorStructInfo(dtype="int32", ndim=1)
    host = OPERATORS["relax.unique"].host
    values, inverse, counts = host(a, False, False, True, True, None)
    assert values.tolist() == [3, 1, 0, 2, 5]
    assert counts.tolist() == [3, 3, 4, 1, 1]
    np.testing.assert_array_equal(values[inverse].reshape(a.shape), a)
    slices = host(a, True, False, False, False, 1)
    np.testing.assert_array_equal(slices, np.unique(a, axis=1))
    bounds = [np.array(v) for v in ([2, -1], [0, -9], [-1, -2])]
    np.testing.assert_array_equal(OPERATORS["relax.dynamic_strided_slice"].host(a, *bounds), a[2:0:-1, -1:-9:-2])


X = Var("x", TensorStructInfo((2, 3), "float32"))
INDICES = Var("i", TensorStructInfo((2, 3), "int32"))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: op.add(X, INDICES), "relax.add: the element types differ: x1 float32 and x2 int32"),
        (lambda: op.bitwise_and(X, X), "relax.bitwise_and: x1 must have integer or bool elements, got float32"),
        (lambda: op.exp(INDICES), "relax.exp: x must have floating point elements, got int32"),
        (lambda: op.sum(X, 2), "relax.sum: axis is 2, but there are 2 dimensions"),
        (lambda: op.sum(X, (0, -2)), "relax.sum: axis is (0, -2), which names a dimension twice"),
        (lambda: op.std(INDICES), "relax.std: x must have floating point elements, got int32"),
        (lambda: op.where(X, X, X), "relax.where: condition must have bool elements, got float32"),
        (lambda: op.topk(X, 4), "relax.topk: k is 4, but dimension 1 of data is 3"),
        (lambda: op.concat([X, INDICES]), "the element types of tensors differ"),
        (lambda: op.broadcast_to(X, (3, 3)), "x does not broadcast to (3, 3): its dimension -2 is 2"),
        (lambda: op.squeeze(X, 0), "relax.squeeze: dimension 0 of x is 2, not 1"),
        (lambda: op.expand_dims(X, [0, 0]), "which names a dimension twice"),
        (lambda: op.take(X, X, 0), "relax.take: indices must have integer elements, got float32"),
        (lambda: op.take(X, INDICES), "relax.take: axis is None, but x has 2 dimensions"),
        (lambda: op.strided_slice(X, [0], [0], [1], [0]), "relax.strided_slice: a stride is 0"),
        (lambda: op.gather_nd(X, INDICES), "relax.gather_nd: points of 3 numbers are more than the dimensions of data"),
        (lambda: op.scatter_elements(X, INDICES, X, 0, "xor"), "the reduction 'xor' is none of"),
        (lambda: op.one_hot(INDICES, prim(1), prim(0), 0), "relax.one_hot: depth is 0"),
        (lambda: op.outer(X, X), "relax.outer: x1 must have 1 dimensions, got 2"),
        (lambda: op.einsum([X, X], "ij,jk"), "relax.einsum: einsum 'ij,jk'"),
        (lambda: op.quantize(INDICES, X, INDICES), "relax.quantize: data must have floating point elements, got int32"),
        (lambda: op.tril(Var("v", TensorStructInfo((3,), "float32"))), "relax.tril: x must have at least 2 dimensions"),
        (lambda: op.arange(0, 3, 0), "relax.arange: step is 0"),
        (lambda: op.split(X, 0), "relax.split: indices_or_sections is 0"),
    ],
)
def test_refused_arguments(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        info_of_call(make())
    assert text in error.value.message


def test_sizes_of_the_cases() -> None:
    """There is a set of ones, and one with a 0."""
    assert any(set(s.values()) == {1} for s in SIZES)
    assert any(0 in s.values() for s in SIZES)
    assert len(SIZES) == len(WITHOUT_ZERO) == 4


def test_layouts_with_blocks_and_padding() -> None:
    x = Var("x", TensorStructInfo((10, 3), "float32"))
    call = op.layout_transform(x, lambda i, j: (i // 4, j, i % 4), 2.0)
    assert info_of_call(call) == TensorStructInfo((3, 3, 4), "float32")
    check_text(lambda x: op.layout_transform(x, lambda i, j: (i // 4, j, i % 4), 2.0), [x])
    values = RNG.standard_normal((10, 3))
    build = lambda x: op.layout_transform(x, "lambda i, j: (i // 4, j, i % 4)", 2)  # noqa: E731
    assert check_gradient(build, blocked, [values], "blocks") == 1
    bb = BlockBuilder()
    with bb.function("main", [x]):
        back = op.layout_transform(bb.emit(call), lambda i, j, k: (i * 4 + k, j))
        bb.emit_func_output(bb.emit(back))
    data = values.astype("float32")
    wanted = np.concatenate([data, np.full((2, 3), 2, "float32")])
    np.testing.assert_array_equal(run(bb.get(), data), wanted)
    found = VirtualMachine(build_graph(bb.get(), "llvm"), device("cpu"))["main"](data)
    np.testing.assert_array_equal(found.numpy(), wanted)
    with pytest.raises(IRError, match="places without an element of x"):
        info_of_call(op.layout_transform(x, lambda i, j: (i // 4, j, i % 4)))
    with pytest.raises(IRError, match="index_map takes 3 indices, and x is"):
        info_of_call(op.layout_transform(x, lambda i, j, k: (k, j, i)))
    with pytest.raises(IRError, match=r"layout_transform: .*holds more than"):
        op.layout_transform(x, "lambda i: (i ** 2,)")
