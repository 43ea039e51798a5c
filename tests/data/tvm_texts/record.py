"""Programs printed by Apache TVM, kept as data: `TVM_PYTHON record.py > tvm_0_17.json`, likewise with TVM 0.27.

Each is a module of one function "main". `tests/e2e/compiler/test_tvm_texts.py` reads the texts, builds and runs
them. A program that a version does not know is left out of its file.
"""

import json
import sys

import tvm
from tvm import te

NEW = not hasattr(tvm, "tir")
tir = tvm.tirx if NEW else tvm.tir
Schedule = tvm.s_tir.Schedule if NEW else tvm.tir.Schedule
PROGRAMS = []


def program(made):
    PROGRAMS.append(made)
    return made


def block(sch, name):
    return sch.get_sblock(name) if NEW else sch.get_block(name)


def source(text):
    if NEW:
        text = text.replace("T.block(", "T.sblock(").replace("T.alloc_buffer(", "T.sblock_alloc_buffer(")
        text = text.replace("@T.prim_func", "@T.prim_func(s_tir=True)")
    return tvm.script.from_source(text)


@program
def elementwise():
    a = te.placeholder((12, 7), name="A")
    return te.create_prim_func([a, te.compute((12, 7), lambda i, j: te.exp(a[i, j]) * 2.0 + 1.0, name="B")])


@program
def product():
    a, b = te.placeholder((9, 8), name="A"), te.placeholder((8, 5), name="B")
    k = te.reduce_axis((0, 8), name="k")
    return te.create_prim_func([a, b, te.compute((9, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])


@program
def widened_product():
    a, b = te.placeholder((6, 8), "int8", name="A"), te.placeholder((8, 5), "int8", name="B")
    k = te.reduce_axis((0, 8), name="k")
    body = lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)  # noqa: E731
    return te.create_prim_func([a, b, te.compute((6, 5), body, name="C")])


@program
def greatest():
    a = te.placeholder((6, 10), name="A")
    k = te.reduce_axis((0, 10), name="k")
    return te.create_prim_func([a, te.compute((6,), lambda i: te.max(a[i, k], axis=k), name="B")])


@program
def padded():
    a = te.placeholder((6, 6), name="A")
    inside = lambda i, j: tir.all(i >= 1, i < 7, j >= 1, j < 7)  # noqa: E731
    body = lambda i, j: tir.if_then_else(inside(i, j), a[i - 1, j - 1], tir.const(0.0, "float32"))  # noqa: E731
    return te.create_prim_func([a, te.compute((8, 8), body, name="P")])


@program
def selected():
    a = te.placeholder((16,), "int32", name="A")
    body = lambda i: tir.Select(a[i] > 0, a[i] // 3, -(a[i] % 5))  # noqa: E731
    return te.create_prim_func([a, te.compute((16,), body, name="B")])


@program
def of_any_size():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 3.0, name="B")])


@program
def of_any_rows():
    n = te.var("n", "int64")
    a = te.placeholder((n, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    return te.create_prim_func([a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")])


@program
def half_floats():
    a = te.placeholder((8,), "float16", name="A")
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] * tir.const(0.5, "float16"), name="B")])


@program
def truths():
    a = te.placeholder((8,), "float32", name="A")
    return te.create_prim_func([a, te.compute((8,), lambda i: tir.any(a[i] < 0.25, a[i] > 0.75), name="B")])


@program
def bits():
    a = te.placeholder((8,), "uint32", name="A")
    body = lambda i: (a[i] << tir.const(3, "uint32")) ^ (a[i] >> tir.const(1, "uint32")) & tir.const(255, "uint32")  # noqa: E731
    return te.create_prim_func([a, te.compute((8,), body, name="B")])


@program
def tiled():
    sch = Schedule(product())
    b = block(sch, "C")
    i, j, k = sch.get_loops(b)
    i0, i1 = sch.split(i, [3, 3])
    sch.reorder(i0, k, i1, j)
    sch.parallel(i0)
    sch.decompose_reduction(b, k)
    sch.unroll(i1)
    return sch.mod["main"]


@program
def vectors():
    sch = Schedule(elementwise())
    i, j = sch.get_loops(block(sch, "B"))
    sch.vectorize(sch.split(sch.fuse(i, j), [None, 4])[1])
    return sch.mod["main"]


@program
def cached():
    sch = Schedule(product())
    b = block(sch, "C")
    copy = sch.cache_read(b, 0, "local")
    sch.cache_write(b, 0, "local")
    sch.compute_at(copy, sch.get_loops(b)[0])
    sch.annotate(b, "note", 1)
    sch.annotate(sch.get_loops(b)[1], "pragma_unroll_explicit", True)
    return sch.mod["main"]


@program
def in_tiles():
    sch = Schedule(product())
    i, j, k = sch.get_loops(block(sch, "C"))
    i0, i1 = sch.split(i, [3, 3])
    sch.reorder(i0, j, i1, k)
    sch.blockize(i1)
    return sch.mod["main"]


@program
def opaque():
    return source("""
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i0, j0 in T.grid(4, 4):
        with T.block("tile"):
            v0, v1 = T.axis.remap("SS", [i0, j0])
            T.reads(A[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4])
            T.writes(B[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4])
            S = T.match_buffer(A[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4], (4, 4), strides=("s0", "s1"), offset_factor=1)
            D = T.match_buffer(B[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4], (4, 4), strides=("t0", "t1"), offset_factor=1)
            for i, j in T.grid(4, 4):
                D[i, j] = S[j, i] + T.float32(1)
""")


@program
def until_it_is_small():
    return source("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = 0
            while B[vi] * B[vi] < A[vi]:
                B[vi] = B[vi] + 1
""")


@program
def by_cases():
    return source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            if vi % 3 == 0:
                B[vi] = A[vi]
            else:
                if vi < 6:
                    B[vi] = T.sqrt(T.fabs(A[vi]))
                else:
                    B[vi] = T.float32(-1)
""")


@program
def greatest_and_where():
    return source("""
@T.prim_func
def main(val: T.Buffer((6, 10), "float32"), where: T.Buffer((6,), "int32"), most: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 10):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(val[vi, vk])
            T.writes(where[vi], most[vi])
            with T.init():
                where[vi] = -1
                most[vi] = T.min_value("float32")
            v_where: T.int32 = T.Select(most[vi] >= val[vi, vk], where[vi], vk)
            v_most: T.float32 = T.Select(most[vi] >= val[vi, vk], most[vi], val[vi, vk])
            where[vi] = v_where
            most[vi] = v_most
""")


@program
def through_a_table():
    return source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), at: T.Buffer((5,), "int32"), B: T.Buffer((5,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            T.reads(A[at[vi]], at[vi])
            T.writes(B[vi])
            B[vi] = A[at[vi] % 8]
""")


@program
def without_blocks():
    return source("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4):
        B[i, T.Ramp(0, 1, 8)] = A[i, T.Ramp(0, 1, 8)] * T.Broadcast(T.float32(2), 8)
""")


def main():
    kept = {}
    for made in PROGRAMS:
        try:
            func = made()
            kept[made.__name__] = tvm.IRModule({"main": func.with_attr("global_symbol", "main")}).script()
        except Exception as error:
            print(f"{made.__name__}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    print(json.dumps({"tvm": tvm.__version__, "texts": kept}, indent=1))


main()
