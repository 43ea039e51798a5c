"""Views of memory: match_buffer, decl_buffer, addresses given to C functions, shuffles of lanes."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.pipeline import stages
from compiler.errors import ArtifactError, IRError, LoweringError
from compiler.interp.interpreter import run
from compiler.ir.structural import structural_equal, structural_hash
from compiler.ir.text import script
from compiler.ir.visit import walk
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir.verify import verify
from tunefarm import te, tir
from tunefarm.script import tir as T

RNG = np.random.default_rng(5)


@T.prim_func
def tiles(A: T.Buffer((9, 10), "float32"), B: T.Buffer((9, 10), "float32")):
    for i, j in T.grid(3, 5):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 3 : vi * 3 + 3, vj * 2 : vj * 2 + 2])
            T.writes(B[vi * 3 : vi * 3 + 3, vj * 2 : vj * 2 + 2])
            pitch = T.int32()
            start = T.int32()
            a = T.match_buffer(
                A[vi * 3 : vi * 3 + 3, vj * 2 : vj * 2 + 2], (3, 2), strides=(pitch, 1), elem_offset=start
            )
            b = T.match_buffer(B[vi * 3 : vi * 3 + 3, vj * 2 : vj * 2 + 2], (3, 2), offset_factor=1)
            flat = T.decl_buffer((90,), "float32", data=A.data)
            for x, y in T.grid(3, 2):
                b[x, y] = a[x, y] * T.Cast("float32", pitch) + T.Cast("float32", start) + flat[1]


def expected(a: np.ndarray) -> np.ndarray:
    i, j = np.indices(a.shape)
    return a * 10 + (i // 3 * 30 + j // 2 * 2) + a[0, 1]


def everywhere(func: n.PrimFunc, a: np.ndarray) -> list[np.ndarray]:
    """The result of `func(a, out)` interpreted as it is, after each pass, and as machine code."""
    found = []
    for each in [func, *(after for _, after in stages(func))]:
        found.append(np.zeros_like(a))
        run(each, a, found[-1])
    out = tvm.nd.array(np.zeros_like(a))
    tvm.build(func, target="llvm")(tvm.nd.array(a), out)
    return [*found, out.numpy()]


def reads_back(func: n.PrimFunc) -> None:
    again = from_source(script(func))
    assert script(again) == script(func)
    assert structural_equal(again, func)
    assert structural_hash(again) == structural_hash(func)


def test_views_of_regions_everywhere():
    verify(tiles)
    reads_back(tiles)
    a = RNG.random((9, 10), "float32")
    for result in everywhere(tiles, a):
        np.testing.assert_allclose(result, expected(a), rtol=1e-6)


def test_a_pass_of_its_own_lowers_views():
    lowered = tir.transform.LowerMatchBuffer()(tvm.IRModule({"main": tiles}))["main"]
    blocks = [node for node in walk(lowered.body) if isinstance(node, n.Block)]
    assert not any(block.match_buffers for block in blocks)
    assert "B[vi * 3 + x, vj * 2 + y] = A[vi * 3 + x, vj * 2 + y] * T.Cast" in script(lowered)


def test_a_view_of_a_view():
    @T.prim_func
    def nested(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                a = T.match_buffer(A[vi * 2 : vi * 2 + 2, 0:8], (2, 8))
                b = T.match_buffer(B[vi * 2 : vi * 2 + 2, 0:8], (2, 8))
                for j in range(2):
                    with T.block("inner"):
                        vj = T.axis.spatial(2, j)
                        x = T.match_buffer(a[vj, 0:8], (8,))
                        y = T.match_buffer(b[vj, 0:8], (8,))
                        for k in range(8):
                            y[k] = x[k] + 1.0

    reads_back(nested)
    a = RNG.random((8, 8), "float32")
    for result in everywhere(nested, a):
        np.testing.assert_array_equal(result, a + np.float32(1))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("(2, 4), strides=(5, 1)", "match_buffer 'a': it is declared with the stride 5, the region has 8"),
        ("(2, 3)", "declared with the size 3, the region has 4"),
        ('(2, 4), "int32"', "it is int32 with 2 dimensions, buffer 'A' float32 with 2"),
    ],
)
def test_a_view_with_another_layout_is_refused(layout, message):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            a = T.match_buffer(A[vi * 2:vi * 2 + 2, 0:4], {layout})
            a[0, 0] = a[0, 1]
""")
    with pytest.raises(LoweringError) as caught:
        tvm.lower(func)
    assert message in caught.value.message


# ---------------------------------------------------------------------------------- addresses


def test_parts_of_a_buffer():
    a = tir.decl_buffer((8, 16), "float32", "A")
    assert script(a.access_ptr("rw")) == 'T.tvm_access_ptr(T.type_annotation("float32"), A, 0, 128, 3)'
    assert script(a.access_ptr("w", content_lanes=4)) == 'T.tvm_access_ptr(T.type_annotation("float32x4"), A, 0, 32, 2)'
    assert script(a.access_ptr("r", offset=3)).endswith("A, 3, 125, 1)")
    assert script(a.vload((0, 4), "float32x4")) == "A[0, T.Ramp(4, 1, 4)]"
    assert script(a.vstore([0, 0], tir.Broadcast(1.0, 4))) == "A[0, T.Ramp(0, 1, 4)] = T.Broadcast(1.0, 4)"
    assert [int(x) for x in a.offset_of((2, 3))] == [35]
    assert [int(x) for x in a.get_flattened_buffer().shape] == [128]
    strided = tir.decl_buffer((8, 16), strides=[te.var("s"), 1], offset_factor=4, data_alignment=32, name="B")
    assert (strided.offset_factor, strided.data_alignment) == (4, 32)
    assert script(strided.access_ptr("r")).endswith("B, B_elem_offset, s * 8, 1)")
    with pytest.raises(IRError, match="no access mask 'x'"):
        a.access_ptr("x")
    with pytest.raises(IRError, match="holds float32: it has no elements of int32x4"):
        a.vload((0, 0), "int32x4")
    with pytest.raises(IRError, match="2 dimensions, 1 strides"):
        tir.decl_buffer((8, 16), strides=[1])


def copying(count: int) -> te.TensorIntrin:
    """A tensor intrinsic in the classic form: buffers with a free offset, and their addresses for a C function."""
    a = te.placeholder((count,), name="a")
    c = te.compute((count,), lambda i: a[i] + 0.0, name="c")
    binds = {t: tir.decl_buffer(t.shape, t.dtype, name=t.name, offset_factor=1, strides=[1]) for t in (a, c)}

    def body(ins, outs):
        ib = tir.ir_builder.create()
        size = tir.const(count * 4, "int64")
        ib.emit(tir.call_extern("handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), size))
        return ib.get()

    return te.decl_tensor_intrin(c.op, body, binds=binds)


def test_an_intrinsic_that_calls_c():
    a = te.placeholder((6, 8), name="A")
    c = te.compute((6, 8), lambda i, j: a[i, j] + 0.0, name="C")
    s = te.create_schedule(c.op)
    s[c].tensorize(s[c].split(c.op.axis[1], 4)[1], copying(4))
    lowered = tvm.lower(s, [a, c])["main"]
    reads_back(lowered)
    assert "C.data, i * 8 + j_outer * 4, 4, 2" in script(lowered)
    given = RNG.random((6, 8), "float32")
    for result in everywhere(lowered, given):
        np.testing.assert_array_equal(result, given)


def test_an_extern_operation_by_address():
    def by_address(function):
        a = te.placeholder((40,), name="A")
        out = te.extern(
            (40,),
            [a],
            lambda ins, outs: tir.call_extern(
                "handle", function, outs[0].access_ptr("w"), ins[0].access_ptr("r"), tir.const(160, "int64")
            ),
            dtype="float32",
        )
        return te.create_schedule(out.op), [a, out]

    given = RNG.random(40, "float32")
    out = tvm.nd.array(np.zeros(40, "float32"))
    tvm.build(*by_address("memmove"), target="llvm")(tvm.nd.array(given), out)
    np.testing.assert_array_equal(out.numpy(), given)
    with pytest.raises(ArtifactError, match="functions this machine does not have: my_gemm"):
        tvm.build(*by_address("my_gemm"), target="llvm").entry_func


def test_calls_by_name():
    x = te.var("x", "float32")
    assert script(tir.call_extern("float32", "cbrtf", x)) == 'T.call_extern("float32", "cbrtf", x)'
    assert script(tir.call_intrin("float32", "tir.exp", x)) == "T.exp(x)"
    with pytest.raises(IRError, match=r"there is no operator 'tir\.nothing'"):
        tir.call_intrin("float32", "tir.nothing", x)
    with pytest.raises(IRError, match="buffer 'A' is given as an argument"):
        tir.call_extern("int32", "f", tir.decl_buffer((4,), name="A"))
    with pytest.raises(IRError, match="'no name' is no name"):
        tir.call_extern("int32", "no name")


# ----------------------------------------------------------------------------------- shuffles


def test_shuffle_of_lanes():
    a, out = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")
    first, second = a.vload([0], "float32x4"), a.vload([4], "float32x4")
    shuffled = tir.Shuffle([first, second], [7, 0, 6, 1, 5, 2, 4, 3])
    one = tir.Shuffle([first, second], [5])
    assert (shuffled.dtype, one.dtype) == ("float32x8", "float32")
    store = out.vstore([0], tir.Add(shuffled, tir.Broadcast(one, 8)))
    params = {tir.Var(b.name, "handle"): b for b in (a, out)}
    func = n.PrimFunc(tuple(params), store, None, params, {"global_symbol": "main"})
    reads_back(func)
    given = RNG.random(8, "float32")
    for result in everywhere(func, given):
        np.testing.assert_array_equal(result, given[[7, 0, 6, 1, 5, 2, 4, 3]] + given[5])
    with pytest.raises(IRError, match="Shuffle of 4 lanes: 4 is no constant index"):
        tir.Shuffle([first], [4])
    with pytest.raises(IRError, match="one element dtype, got float32, int32"):
        tir.Shuffle([first, tir.Broadcast(1, 4)], [0])
