"""Functions written as TVMScript: what each part of the language becomes, and that it computes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.interp.interpreter import run
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.ir.text import script
from compiler.ir.visit import walk
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from tunefarm.script import ir as I
from tunefarm.script import tir as T

WIDTH = 12


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (13, WIDTH), "float32")
    B = T.match_buffer(b, (WIDTH, 11))
    C = T.match_buffer(c, [13, 11])
    for i, j, k in T.grid(13, 11, WIDTH):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]


def find(func: n.PrimFunc, kind: type) -> list:
    return [node for node in walk(func.body) if isinstance(node, kind)]


def read_back(func: n.PrimFunc | IRModule) -> None:
    again = from_source(func.script())
    assert again.script() == func.script()
    assert_structural_equal(again, func)


def test_a_function_computes():
    assert isinstance(matmul, n.PrimFunc)
    a, b = np.random.rand(13, 12).astype("float32"), np.random.rand(12, 11).astype("float32")
    c = np.empty((13, 11), "float32")
    run(matmul, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    read_back(matmul)


def test_regions_are_found():
    (root, block) = find(matmul, n.Block)
    assert root.name_hint == "root"
    assert [script(r) for r in block.reads] == ["A[vi, vk]", "B[vk, vj]"]
    assert [script(w) for w in block.writes] == ["C[vi, vj]"]
    assert matmul.attrs == {"global_symbol": "matmul", "tir.noalias": True}


def test_regions_cover_loops_inside():
    @T.prim_func
    def rows(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = 0.0
                for j in range(4):
                    B[v] = B[v] + A[v, j * 2 + 1]

    block = find(rows, n.Block)[1]
    assert [script(r) for r in block.reads] == ["B[v]", "A[v, 1:8]"]
    assert [script(w) for w in block.writes] == ["B[v]"]


def test_loops():
    @T.prim_func
    def loops(A: T.Buffer((64,), "float32")):
        for i in T.parallel(0, 4):
            for j in T.vectorized(4, annotations={"note": 1}):
                A[i * 4 + j] = 1.0
        for i in T.unroll(2, 5):
            A[i] = 2.0
        for b in T.thread_binding(4, thread="blockIdx.x"):
            A[b] = 3.0
        for i in T.serial(T.int64(3)):
            A[i] = 4.0

    kinds = [(loop.kind, loop.extent.value, loop.min.value) for loop in find(loops, n.For)]
    k = n.ForKind
    assert kinds == [(k.PARALLEL, 4, 0), (k.VECTORIZED, 4, 0), (k.UNROLLED, 3, 2), (k.THREAD_BINDING, 4, 0),
                     (k.SERIAL, 3, 0)]  # fmt: skip
    assert find(loops, n.For)[1].annotations == {"note": 1}
    assert find(loops, n.For)[3].thread_binding.thread_tag == "blockIdx.x"
    assert find(loops, n.For)[4].loop_var.dtype == "int64"
    read_back(loops)


def test_symbolic_shapes():
    @T.prim_func
    def double(a: T.handle, b: T.handle, n_: T.int32):
        m = T.int32(is_size_var=True)
        A = T.match_buffer(a, (n_, m), "float32")
        B = T.match_buffer(b, (n_, m), "float32", strides=(m + 1, 1), align=128)
        for i in T.serial(1, n_):
            for j in range(m):
                B[i, j] = A[i, j] * 2.0

    loop = find(double, n.For)[0]
    assert script(loop.extent) == "n_ - 1"
    buffer = double.buffer_map[double.params[1]]
    assert (buffer.data_alignment, script(buffer.strides[0])) == (128, "m + 1")
    assert isinstance(buffer.shape[1], n.SizeVar)
    read_back(double)


def test_statements():
    @T.prim_func
    def all_of_them(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int32"), size: T.int32):
        assert size > 2, "too small"
        half: T.int32 = size // 2
        rest = size - half
        T.attr(A, "pragma_hint", 1)
        if half < rest and not (size == 4):  # noqa: SIM201
            A[0] = A[1]
        elif half == rest:
            A[0] = T.if_then_else(half > 1, A[2], T.float32(0))
        else:
            A[0] = T.Select(half > 1, A[2], 0.0)
        while B[0] < 3:
            B[0] += 1
        T.evaluate(T.call_extern("int32", "puts", "done"))
        A[8:12] = T.Broadcast(T.float32(1), 4)
        A[12:16] = T.broadcast(T.float32(1), 4)
        A[T.Ramp(0, 2, 4)] = A[0:8:2]
        A[T.ramp(0, 2, 4)] = A[0:8:2]
        with T.allocate([4], "float32", "local") as t:
            t_1 = T.decl_buffer((4,), "float32", data=t, scope="local")
            t_1[0] = T.max(A[0], A[1], A[2])
        own = T.decl_buffer((3,), "int64", scope="local")
        own[0] = T.Cast("int64", B[0])

    kinds = (n.AssertStmt, n.LetStmt, n.AttrStmt, n.IfThenElse, n.While, n.Evaluate, n.Allocate, n.Ramp)
    assert [len(find(all_of_them, kind)) for kind in kinds] == [1, 2, 1, 2, 1, 1, 2, 6]
    read_back(all_of_them)
    a, b = np.arange(16, dtype="float32"), np.zeros(16, "int32")
    run(from_source(script(all_of_them).replace('T.evaluate(T.call_extern("int32", "puts", "done"))', "pass")), a, b, 6)
    assert (a[0], b[0], a[9]) == (2, 3, 1)


def test_blocks():
    @T.prim_func
    def parts(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
        cache = T.alloc_buffer((16,), "float32", scope="shared")
        for i0, i1 in T.grid(4, 5):
            with T.block("copy"):
                v = T.axis.spatial(16, i0 * 5 + i1)
                w = T.axis.reduce((2, 5), 2)
                s = T.axis.scan(4, 0)
                o = T.axis.opaque(4, 0)
                T.where(i0 * 5 + i1 < 16)
                T.reads(A[v, 0:4])
                T.writes(cache[v])
                T.block_attr({"tile": [1, 2], "name": "x"})
                view = T.match_buffer(A[v, 0:4], (1, 4), elem_offset=T.int32(0), offset_factor=1, axis_separators=[])
                cache[v] = view[0, w + s + o]
        for i in range(16):
            with T.block("out"):
                v = T.axis.S(16, i)
                B[v] = cache[v]

    block = next(b for b in find(parts, n.Block) if b.name_hint == "copy")
    assert [axis.iter_type.name for axis in block.iter_vars] == ["DATA_PAR", "COMM_REDUCE", "ORDERED", "OPAQUE"]
    assert block.annotations == {"tile": [1, 2], "name": "x"}
    assert script(block.iter_vars[1].dom) == "T.Range(2, 5)"
    root = find(parts, n.Block)[0]
    assert [b.scope for b in root.alloc_buffers] == ["shared"]
    read_back(parts)


def test_threads():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(tx, 8):
            A[bx * 8 + tx] = 1.0

    assert [s.node.thread_tag for s in find(kernel, n.AttrStmt)] == ["blockIdx.x", "threadIdx.x"]
    read_back(kernel)


def test_a_closure_gives_constants_and_nothing_runs():
    def make(size, dtype, steps):
        @T.prim_func
        def fill(A: T.Buffer((size, steps["inner"]), dtype)):
            for i, j in T.grid(size, steps["inner"]):
                A[i, j] = T.Cast(dtype, i) + T.Cast(dtype, max(size, 3) ** 2 // 2)
                if steps["fast"]:
                    T.evaluate(1)

        return fill

    assert script(make(2, "int64", {"inner": 3, "fast": False})).splitlines()[3:] == [
        "    for i, j in T.grid(2, 3):",
        '        A[i, j] = T.Cast("int64", i) + T.Cast("int64", 4)',
    ]


def test_a_module():
    @I.ir_module
    class Both:
        I.module_attrs({"runtime": "x"})

        @T.prim_func
        def one(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

        @T.prim_func(private=True)
        def two(A: T.Buffer((4,), "float32"), x: T.int32):
            T.evaluate(Both.one(x))

    assert isinstance(Both, IRModule)
    assert [name.name_hint for name in Both] == ["one", "two"]
    assert Both["one"].attrs == {"global_symbol": "one"}
    assert dict(Both["two"].attrs) == {}
    assert Both.attrs == {"runtime": "x"}
    assert find(Both["two"], n.Call)[0].op.name_hint == "one"


@pytest.mark.parametrize("name", ["ir_module", "script.ir_module", "tvm.script.ir_module", "I.ir_module"])
def test_a_module_is_known_by_its_decorator_alone(name: str) -> None:
    """Older texts do not say `I`."""
    text = f"""
from tvm.script import ir_module, tir as T
@{name}
class Module:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)
"""
    assert [var.name_hint for var in from_source(text).functions] == ["f"]


def test_a_plain_class_may_hold_functions():
    class Kernels:
        @T.prim_func
        def one(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

    assert isinstance(Kernels.one, n.PrimFunc)


def test_text_with_imports_and_values():
    text = """
from tvm.script import tir as X

@X.prim_func
def main(A: X.Buffer((N,), "float32")):
    for i in range(N):
        A[i] = X.exp(A[i])
"""
    assert script(from_source(text, {"N": 7})).count("7") == 2


@pytest.mark.parametrize(
    "expr",
    [
        "T.Add(1, 2)", "x + 0", "x * 1", "x - (x - 1)", "T.truncdiv(x, 3)", "T.min(x, T.max(x, 1))", "T.int64(3)",
        "T.Let(y * y, where={y: x + 1})", "T.Cast(\"float32\", 3)", "-x", "T.bitwise_and(x, 3)", "x << 2",
        'T.float32("nan")', 'T.float64("-inf")', "T.float16(0.5)", "T.Ramp(x, 1, 8)", "1 < x and x < 5 or x == 7",
        "T.Call(\"int32\", \"tir.popcount\", x)", "T.exp(T.float32(2))", "T.likely(x < 3)", "T.bool(True)",
        "T.uint8(255)", "T.ceildiv(x, 4)", "T.all(x < 3, x > 1)", "T.abs(x)", "T.EQ(1, 2)",
        "T.reinterpret(\"int64\", x)",
    ],
)  # fmt: skip
def test_expressions_read_back(expr):
    func = from_source(f"@T.prim_func\ndef f(x: T.int32):\n    T.evaluate({expr})")
    read_back(func)


def test_names_work_outside_of_scripts():
    assert script(T.int64(3)) == "T.int64(3)"
    assert T.float32("inf").value == float("inf")
    assert T.Buffer((4, 5), "int8").dtype == "int8"
    with pytest.raises(IRError, match="only inside a function"):
        T.grid(3)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'"):
        T.nothing
    assert {"int32", "exp", "grid", "block"} <= set(dir(T))


def test_spans_say_where():
    span = find(matmul, n.BufferStore)[0].span
    assert span.source == __file__
    with open(__file__) as lines:
        assert lines.readlines()[span.line - 1].strip().startswith("C[vi, vj]")


def test_a_let_of_a_variable_made_before() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    x = T.int32()
    with T.LetStmt(5, var=x):
        A[x] = T.float32(1)
""")
    (let,) = find(func, n.LetStmt)
    (store,) = find(func, n.BufferStore)
    assert store.indices == (let.var,)


@pytest.mark.parametrize("loop", ['16, "threadIdx.x"', '0, 16, "threadIdx.x"', '16, thread="threadIdx.x"'])
def test_a_thread_is_named_by_place_too(loop: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    for i in T.thread_binding({loop}):
        A[i] = T.float32(1)
""")
    (found,) = find(func, n.For)
    assert (found.thread_binding.thread_tag, found.extent.value) == ("threadIdx.x", 16)


def test_methods_of_buffers() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.evaluate(T.call_extern("int32", "f", A.access_ptr("r"), B.access_ptr("w", offset=4)))
    B[T.Ramp(0, 1, 4)] = A.vload([0], "float32x4")
    for i in T.serial(A.shape[0] // 2, annotations={"x": T.bool(True)}):
        B[i] = A[A.offset_of([i])[0]]
""")
    reads, writes = [call for call in find(func, n.Call) if call.op.name == "tir.tvm_access_ptr"]
    assert [int(arg) for arg in reads.args[2:]] == [0, 16, 1]
    assert [int(arg) for arg in writes.args[2:]] == [4, 12, 2]
    (loop,) = find(func, n.For)
    assert (loop.extent.value, loop.annotations) == (8, {"x": True})
    assert find(func, n.BufferStore)[0].value.dtype == "float32x4"


def test_constant_memory_is_filled_where_it_is_made() -> None:
    func = from_source("""
@T.prim_func
def main(B: T.Buffer((3,), "float32")):
    C = T.allocate_const([1, 2.5, -3], "float32", [3])
    c = T.Buffer((3,), data=C)
    for i in range(3):
        B[i] = c[i] * T.float32(2)
""")
    out = np.zeros(3, "float32")
    run(func, out)
    np.testing.assert_array_equal(out, [2, 5, -6])
    with pytest.raises(IRError, match="2 values for the extents"):
        from_source("""
@T.prim_func
def main(B: T.Buffer((3,), "float32")):
    C = T.allocate_const([1, 2], "float32", [3])
    B[0] = T.float32(1)
""")


def test_a_root_block_says_nothing_of_accesses() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    with T.block("root"):
        for i in range(16):
            with T.block("A"):
                vi = T.axis.spatial(16, i)
                A[vi] = T.float32(1)
""")
    root, inner = find(func, n.Block)
    assert (root.reads, root.writes) == ((), ())
    assert len(inner.writes) == 1
