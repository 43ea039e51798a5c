"""The TensorIR function of a te computation: blocks, regions, parameters, errors."""

import pytest

from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.te import operation as te
from compiler.te.prim_func import build_func, create_prim_func, identifier
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.visit import free_vars


def blocks(func: n.PrimFunc) -> dict[str, n.Block]:
    return {b.name_hint: b for b in walk(func.body) if isinstance(b, n.Block)}


def loops(func: n.PrimFunc) -> list[str]:
    return [f.loop_var.name for f in walk(func.body) if isinstance(f, n.For)]


def region(r: n.BufferRegion) -> list[tuple[object, int | None]]:
    """(constant or variable name, extent) of each dimension."""
    starts = [getattr(d.min, "name", ops.as_int(d.min)) for d in r.region]
    return list(zip(starts, [ops.as_int(d.extent) for d in r.region]))


def vector_add() -> tuple[Tensor, Tensor, Tensor]:
    a, b = te.placeholder((7,), name="A"), te.placeholder((7,), name="B")
    return a, b, te.compute((7,), lambda i: a[i] + b[i], name="C")


def test_params_buffers_and_attributes() -> None:
    func = create_prim_func(list(vector_add()), name="add")
    assert func.attrs == {"global_symbol": "add", "tir.noalias": True}
    assert [p.name for p in func.params] == ["var_A", "var_B", "var_C"]
    assert [func.buffer_map[p].name for p in func.params] == ["A", "B", "C"]
    assert isinstance(func.body, n.BlockRealize)
    root = func.body.block
    assert (root.name_hint, root.iter_vars, root.alloc_buffers) == ("root", (), ())
    assert free_vars(func.body) == set()


def test_an_elementwise_block() -> None:
    func = create_prim_func(list(vector_add()))
    block = blocks(func)["C"]
    (iv,) = block.iter_vars
    assert (iv.var.name, iv.iter_type, ops.as_int(iv.dom.extent)) == ("v_i", n.IterType.DATA_PAR, 7)
    assert [(r.buffer.name, region(r)) for r in block.reads] == [("A", [("v_i", 1)]), ("B", [("v_i", 1)])]
    assert [(r.buffer.name, region(r)) for r in block.writes] == [("C", [("v_i", 1)])]
    assert block.init is None
    assert loops(func) == ["i"]


def test_a_reduction_block_has_init_and_reduced_axes() -> None:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 6), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = create_prim_func([a, b, c])
    block = blocks(func)["C"]
    assert [iv.iter_type.name for iv in block.iter_vars] == ["DATA_PAR", "DATA_PAR", "COMM_REDUCE"]
    assert loops(func) == ["i", "j", "k"]
    assert isinstance(block.init, n.BufferStore)
    assert ops.is_const(block.init.value, 0)
    # the running value is not among the reads
    assert [r.buffer.name for r in block.reads] == ["A", "B"]


def test_intermediates_are_allocated_at_the_root_in_order() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    c = te.compute((4,), lambda i: b[i] * 2, name="B")
    d = te.compute((4,), lambda i: b[i] + c[i], name="D")
    built = build_func([a, d], scopes={b.op: "local"})
    func, names = built.func, built.blocks
    assert list(blocks(func)) == ["root", "B", "B_1", "D"]
    assert names == {b.op: "B", c.op: "B_1", d.op: "D"}
    assert [(x.name, x.scope) for x in blocks(func)["root"].alloc_buffers] == [("B", "local"), ("B_1", "global")]


def test_reduced_axes_are_shifted_to_start_at_zero() -> None:
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((3, 5), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k + i], axis=k), name="B")
    block = blocks(create_prim_func([a, b]))["B"]
    assert [ops.as_int(iv.dom.min) for iv in block.iter_vars] == [0, 0]
    (load,) = [x for x in walk(block.body) if isinstance(x, n.BufferLoad) and x.buffer.name == "A"]
    assert any(ops.as_int(x) == 3 for x in walk(load.indices[0]))


def test_a_stencil_reads_a_box() -> None:
    a = te.placeholder((10, 10), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j + 1] + a[i + 2, j] + a[i + 1, j + 1] * a[i, j], name="B")
    (read,) = blocks(create_prim_func([a, b]))["B"].reads
    assert region(read) == [("v_i", 3), ("v_j", 2)]


def test_reads_that_cannot_be_compared_cover_the_dimension() -> None:
    a = te.placeholder((16, 10), name="A")
    b = te.compute((8,), lambda i: a[i, 0] + a[i * 2, 0], name="B")
    (read,) = blocks(create_prim_func([a, b]))["B"].reads
    assert region(read) == [(0, 16), (0, 1)]


def test_a_gather_reads_the_whole_dimension() -> None:
    a, index = te.placeholder((10, 4), name="A"), te.placeholder((8,), "int32", name="I")
    b = te.compute((8, 4), lambda i, j: a[index[i], j], name="B")
    reads = {r.buffer.name: region(r) for r in blocks(create_prim_func([a, index, b]))["B"].reads}
    assert reads == {"A": [(0, 10), ("v_j", 1)], "I": [("v_i", 1)]}


def test_a_scalar_has_a_block_without_loops() -> None:
    a = te.placeholder((), name="A")
    args = [a, te.compute((), lambda: a() + 1.0, name="B")]
    func = create_prim_func(args)
    assert loops(func) == []
    assert [ops.as_int(iv.dom.extent) for iv in blocks(func)["B"].iter_vars] == [1]
    assert loops(build_func(args).func) == ["i"]  # a stage can be scheduled


def test_each_of_several_results_has_its_block() -> None:
    a = te.placeholder((4,), name="A")
    other = te.compute((4,), lambda i: a[i] - 1.0, name="B_v0")
    b = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    func = create_prim_func([a, *b, other])
    written = {name: [r.buffer.name for r in block.writes] for name, block in blocks(func).items() if name != "root"}
    assert written == {"B_v0": ["B_v0"], "B_v1": ["B_v1"], "B_v0_1": ["B_v0_1"]}
    whole = blocks(build_func([a, *b]).func)["B"]
    assert [r.buffer.name for r in whole.writes] == ["B_v0", "B_v1"]


def test_a_pairwise_reduction_updates_both_from_the_values_before() -> None:
    index, value = te.placeholder((8,), "int32", name="I"), te.placeholder((8,), name="V")
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), ops.maximum(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), ops.min_value(t1)),
    )
    k = te.reduce_axis((0, 8), "k")
    first, second = te.compute((1,), lambda i: argmax((index[k], value[k]), axis=k), name="T")
    block = blocks(create_prim_func([index, value, first, second]))["T"]
    assert isinstance(block.body, n.LetStmt)
    assert isinstance(block.body.body, n.LetStmt)
    assert {r.buffer.name for r in block.reads} == {"I", "V"}


def test_where_and_init_of_a_reduction() -> None:
    a, start = te.placeholder((4, 8), name="A"), te.placeholder((4,), name="S")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k < 5, init=start[i]), name="B")
    block = blocks(create_prim_func([a, start, b]))["B"]
    assert isinstance(block.init.value, n.BufferLoad)
    assert [r.buffer.name for r in block.reads] == ["S", "A"]
    assert any(isinstance(x, n.LT) for x in walk(block.body))


def test_symbolic_shapes_and_scalar_arguments() -> None:
    size, scale = te.size_var("n"), te.var("scale", "float32")
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * scale, name="B")
    func = create_prim_func([a, scale, b])
    assert func.params[1] is scale
    assert free_vars(func.body) == {size, scale}


def test_chosen_buffers_and_plain_buffers() -> None:
    a, b, c = vector_add()
    strided = n.decl_buffer((7,), name="strided", strides=[2])
    spare = n.decl_buffer((3,), name="spare")
    func = build_func([a, b, c, spare], binds={a: strided}).func
    assert list(func.buffer_map.values())[0] is strided
    assert list(func.buffer_map.values())[3] is spare
    with pytest.raises(IRError, match="cannot hold tensor 'A'"):
        build_func([a, b, c], binds={a: n.decl_buffer((7,), "int8")})


def test_identifiers() -> None:
    assert identifier("i.outer") == "i_outer"


def test_a_missing_input_is_named() -> None:
    a, _b, c = vector_add()
    with pytest.raises(IRError, match="'B' is read but is not among the arguments") as error:
        create_prim_func([a, c])
    assert __file__ in error.value.message
    assert "A, C" in error.value.hint


def test_arguments_given_twice_or_of_another_kind() -> None:
    a, b, c = vector_add()
    with pytest.raises(IRError, match="'A' is given twice"):
        create_prim_func([a, a, b, c])
    with pytest.raises(IRError, match="must be a tensor"):
        create_prim_func([a, b, c, 3])
