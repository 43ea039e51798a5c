"""transform_layout and transform_block_layout: other places for elements, other axes for blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.arith.index_map import IndexMap
from compiler.ir.base import Node
from compiler.ir.visit import replace, transform
from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w

TILED = IndexMap.from_func(lambda i, j: [i, j // 4, j % 4])


@pytest.mark.parametrize("shape", [(10, 7), (13, 8), (1, 1), (3, 33)])
@pytest.mark.parametrize(
    "index_map",
    [
        TILED,
        lambda i, j: (j // 16, i // 3, j % 16, i % 3),
        lambda i, j: [i * 64 + j],
        lambda *d: [d[1], d[0]],
        "lambda a, b: (b % 2, a, b // 2)",
    ],
)
@pytest.mark.parametrize("pad_value", [None, 0, 2.5, float("-inf"), lambda *places: places[0] - 3])
def test_any_shape_and_padding(shape: tuple[int, int], index_map: Any, pad_value: Any) -> None:
    func = w.chain(*shape)
    sch = Schedule(func)
    sch.transform_layout(sch.get_block("B"), ("write", 0), index_map, pad_value)
    w.check_everywhere(sch, func)


@pytest.mark.parametrize(
    ("pad_value", "wanted"), [(7, 7.0), (0.25, 0.25), (lambda i, jo, ji: i + ji, 6.0), (lambda *_: -1.5, -1.5)]
)
def test_the_padding_holds_its_value(pad_value: Any, wanted: float) -> None:
    """A block made to read a padding element by hand sees the value."""
    func = w.chain(5, 7)
    for block in ("B", "C"):  # filled by the writer; by a block of its own, as B is in C's loops
        sch = Schedule(func)
        if block == "C":
            sch.compute_at(sch.get_block("B"), sch.get_loops("C")[0])
        sch.transform_layout(sch.get_block("B"), "B", TILED, pad_value)
        buffer = sch.get(sch.get_block("B")).writes[0].buffer
        point = tuple(map(ops.const, (3, 1, 3)))

        body = _with_result(sch.func, n.BufferLoad(buffer, point))
        np.testing.assert_array_equal(w.outputs(sch.func.with_body(body)), np.full((5, 7), wanted, "float32"))


def _with_result(func: PrimFunc, value: n.PrimExpr) -> n.Stmt:
    """The body of `func`, whose last block stores `value`."""

    def post(node: Node) -> Node | None:
        stored = isinstance(node, n.BufferStore) and node.buffer.name == "D"
        return replace(node, value=value) if stored else None

    return transform(func.body, post=post)  # type: ignore[return-value]


def test_a_buffer_is_named_in_any_way() -> None:
    texts = set()
    for how in (("read", 0), "B", "itself"):
        sch = Schedule(w.chain())
        block = sch.get_block("C")
        buffer = sch.get(block).reads[0].buffer if how == "itself" else how
        sch.transform_layout(block, buffer, TILED)
        sch.cache_read(block, "B", "local")
        texts.add(sch.func.script())
    assert len(texts) == 1


def test_blocks_by_their_names() -> None:
    func = w.matmul_relu()
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 4, 1])
    sch.transform_block_layout("D", lambda i, j: [j, i])
    sch.reindex_cache_read("D", 0, "global", lambda j, i: (j, i))
    sch.transform_layout("C_global", ("write", 0), TILED, 0)
    w.check_everywhere(sch, func)


def test_what_others_wrote_is_padded_apart() -> None:
    """A reduction, a split block and one under a condition keep their loops."""
    for schedule in (lambda s: None, lambda s: s.split(s.get_loops("C")[0], [None, 4])):
        func = w.matmul_relu()
        sch = Schedule(func)
        schedule(sch)
        sch.transform_layout(sch.get_block("C"), ("write", 0), TILED, 0)
        assert "C_pad" in sch.func.script()
        w.check_everywhere(sch, func)


def test_sizes_and_padding_together() -> None:
    func = w.chain(5, 13)
    sch = Schedule(func)
    width = sch.sample_categorical([3, 4], [0.5, 0.5], decision=0)
    sch.transform_layout(sch.get_block("B"), "B", lambda i, j, s: [j // s, i, j % s], 1, sizes=[width])
    w.check_everywhere(sch, func)


def test_a_map_taken_on_trust() -> None:
    """Elements whose places cannot be told apart by the rules here, but are apart."""
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")
    func = create_prim_func([a, te.compute((4, 4), lambda i, j: b[i, j] * 2.0, name="C")])
    swizzle = lambda i, j: [i, (j + i) % 4]  # noqa: E731
    untrusted = lambda s: s.transform_layout(s.get_block("B"), "B", swizzle)  # noqa: E731
    w.check_refused(func, untrusted, "transform_layout", "it loses index 1")
    sch = Schedule(func)
    sch.transform_layout(sch.get_block("B"), "B", swizzle, assume_injective_transform=True)
    w.check_everywhere(sch, func)


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j, k: [k, j, i],
        lambda i, j, k: [i * 12 + j, k],
        lambda i, j, k: [i, j // 4, k, j % 4],
        lambda i, j, k: [i, j % 4, k // 5, j // 4, k % 5],
        IndexMap.from_func(lambda *v: v, ndim=3),
    ],
)
def test_axes_of_a_product(index_map: Any) -> None:
    func = w.matmul(7, 12, 10)
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.transform_block_layout(block, index_map)
    w.check_everywhere(sch, func)
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    w.check_everywhere(sch, func)


def _read_map(*args: Any) -> Callable[[Schedule], None]:
    return lambda s: s.transform_layout(s.get_block("C"), ("read", 0), *args)


def _block_map(index_map: Any) -> Callable[[Schedule], None]:
    return lambda s: s.transform_block_layout(s.get_block("C"), index_map)


def _infinite_integers(s: Schedule) -> None:
    copy, _ = s.cache_index(s.get_block("C"), "global")
    s.transform_layout(copy, ("write", 0), TILED, float("-inf"))


def _split(s: Schedule) -> None:
    s.split(s.get_loops("C")[0], [None, 2])
    _block_map(lambda i, j: [j, i])(s)


def _parallel(s: Schedule) -> None:
    s.parallel(s.get_loops("C")[0])
    _block_map(lambda i, j: [j, i])(s)


REFUSED = [
    (w.chain, _read_map(lambda i, j: [i + j]), "transform_layout", "the index map may put two elements of 'B' in one"),
    (w.chain, _read_map("lambda i, j: (i * -1, j)"), "transform_layout", "constant extents from 0 up"),
    (w.chain, _read_map(TILED, "lambda a: a"), "transform_layout", "the index map takes 1 arguments, 3 are needed"),
    (w.chain, _read_map(TILED, "lambda a, b, c: (a, b)"), "transform_layout", "pad_value gives 2 values"),
    (w.gathered, _infinite_integers, "transform_layout", "pad_value -inf is no int32"),
    (w.chain, lambda s: s.transform_layout(s.get_block("B"), "A", TILED), "transform_layout", "'A' is an argument"),
    (w.chain, lambda s: s.transform_layout(s.get_block("B"), ("read", 3), "lambda: 0"), "transform_layout", "number 3"),
    (w.chain, _block_map(lambda i, j: [i]), "transform_block_layout", "no inverse: j is lost"),
    (w.chain, _block_map(lambda i, j: [i, j // 4, j % 4]), "transform_block_layout", "places without an iteration"),
    (w.matmul, _block_map(lambda i, j, k: [i, j * 10 + k]), "transform_block_layout", "of data and reduction axes"),
    (w.chain, _split, "transform_block_layout", "loop 'i_0' does not run over one axis of block 'C'"),
    (w.chain, _parallel, "transform_block_layout", "loop 'i' is parallel or annotated"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_laid_out(number: int) -> None:
    make, steps, primitive, rule = REFUSED[number]
    w.check_refused(make(), steps, primitive, rule)


@pytest.mark.parametrize(
    ("index_map", "rule"),
    [
        (lambda i: [i], "takes 1 indices, 2 are needed"),
        (lambda i, j: [ops.maximum(i, j)], r"an index map is made of its indices and \+ - \* // %"),
    ],
)
def test_functions_that_are_no_maps(index_map: Any, rule: str) -> None:
    sch = Schedule(w.chain())
    with pytest.raises(w.ScheduleError, match=f"transform_layout: .*{rule}"):
        sch.transform_layout(sch.get_block("B"), "B", index_map)
    with pytest.raises(w.ScheduleError, match="transform_block_layout: "):
        sch.transform_block_layout(sch.get_block("B"), index_map)
