"""Schedules made by Apache TVM, kept as data: `TVM_PYTHON record.py > tvm_0_17.json`, likewise with TVM 0.27.

Each has the module before, the trace in TVM's JSON, and the module after. `tests/golden/test_tvm_traces.py` takes the
steps again. A schedule that a version does not know is left out of its file.
"""

import json
import sys

import tvm

NEW = not hasattr(tvm, "tir")
Schedule = tvm.s_tir.Schedule if NEW else tvm.tir.Schedule

MATMUL = """
@T.prim_func
def main(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    for i, j, k in T.grid(32, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
TWO = """
@T.prim_func
def main(A: T.Buffer((32, 24), "float32"), C: T.Buffer((32, 24), "float32")):
    B = T.alloc_buffer((32, 24))
    for i, j in T.grid(32, 24):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(32, 24):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
ROWSUM = """
@T.prim_func
def main(A: T.Buffer((16, 48), "float32"), B: T.Buffer((16,), "float32")):
    for i, k in T.grid(16, 48):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
TURNED = """
@T.prim_func
def main(A: T.Buffer((16, 32), "float32"), B: T.Buffer((32, 16), "float32")):
    for i, j in T.grid(32, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)
"""
RESIZE = """
@T.prim_func
def main(A: T.Buffer((1, 3, 10, 10), "float32"), B: T.Buffer((1, 3, 20, 20), "float32")):
    for n, c, h, w in T.grid(1, 3, 20, 20):
        with T.block("resize"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            B[vn, vc, vh, vw] = A[vn, vc, vh // 4 + vw // 4, vw // 2]
"""
PADDED = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((18, 18), "float32")):
    for i, j in T.grid(18, 18):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(1 <= vi and vi < 17 and 1 <= vj and vj < 17, A[vi - 1, vj - 1], T.float32(0))
"""
ODD = """
@T.prim_func
def main(A: T.Buffer((30, 31), "float32"), B: T.Buffer((31, 29), "float32"), C: T.Buffer((30, 29), "float32")):
    A_s = T.alloc_buffer((30, 31))
    B_s = T.alloc_buffer((31, 29))
    C_s = T.alloc_buffer((30, 29))
    for i, j in T.grid(30, 31):
        with T.block("A_s"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_s[vi, vj] = A[vi, vj]
    for i, j in T.grid(31, 29):
        with T.block("B_s"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_s[vi, vj] = B[vi, vj]
    for i, j, k in T.grid(30, 29, 31):
        with T.block("C_s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_s[vi, vj] = T.float32(0)
            C_s[vi, vj] = C_s[vi, vj] + A_s[vi, vk] * B_s[vk, vj]
    for i, j in T.grid(30, 29):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C_s[vi, vj]
"""
POOLED = """
@T.prim_func
def main(A: T.Buffer((12, 12), "float32"), D: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((10, 10))
    for i, j, h, w in T.grid(10, 10, 3, 3):
        with T.block("B"):
            vi, vj, vh, vw = T.axis.remap("SSRR", [i, j, h, w])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = T.max(B[vi, vj], A[vi + vh, vj + vw])
    for i, j, h, w in T.grid(8, 8, 3, 3):
        with T.block("D"):
            vi, vj, vh, vw = T.axis.remap("SSRR", [i, j, h, w])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = T.max(D[vi, vj], B[vi + vh, vj + vw])
"""
IN_PLACE = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * T.float32(2)
"""
SIDE = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(3)
"""
DOT_DESC = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    C = T.match_buffer(c, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
DOT_IMPL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    C = T.match_buffer(c, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
PROGRAMS = []


def program(base):
    def keep(made):
        PROGRAMS.append((made.__name__, base, made))
        return made

    return keep


def block(sch, name):
    return sch.get_sblock(name) if NEW else sch.get_block(name)


def loops(sch, name):
    return sch.get_loops(block(sch, name))


@program(MATMUL)
def tiles(sch):
    i, j, k = loops(sch, "C")
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16, decision=[8, 4]))
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j1)
    sch.unroll(i1)


@program(MATMUL)
def tiles_that_do_not_divide(sch):
    i, j, k = loops(sch, "C")
    sch.split(i, [None, 7])
    sch.split(j, [5, 7])
    sch.split(k, [3, None, 5])


@program(TWO)
def fuse_and_split_again(sch):
    sch.split(sch.fuse(*loops(sch, "B")), [None, 20])
    sch.add_unit_loop(block(sch, "C"))


@program(MATMUL)
def bound(sch):
    i, j, k = loops(sch, "C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.annotate(k, "pragma_auto_unroll_max_step", 16)
    sch.annotate(k, "note", "text")
    sch.annotate(k, "list", [1, 2])
    sch.unannotate(k, "note")


@program(TWO)
def placed(sch):
    i, j = loops(sch, "C")
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(block(sch, "B"), j0)


@program(TWO)
def placed_after(sch):
    i, _ = loops(sch, "B")
    sch.reverse_compute_at(block(sch, "C"), i, preserve_unit_loops=True)


@program(TWO)
def placed_where_drawn(sch):
    sch.compute_at(block(sch, "B"), sch.sample_compute_location(block(sch, "B"), decision=0))


@program(TWO)
def inlined(sch):
    sch.compute_inline(block(sch, "B"))


@program(TWO)
def inlined_back(sch):
    sch.reverse_compute_inline(block(sch, "C"))


@program(MATMUL)
def cached(sch):
    b = block(sch, "C")
    a_shared = sch.cache_read(b, 0, "shared")
    c_local = sch.cache_write(b, 0, "local")
    _, j, k = sch.get_loops(b)
    sch.compute_at(a_shared, k)
    sch.reverse_compute_at(c_local, j)


@program(SIDE)
def cached_for_one(sch):
    sch.cache_read(block(sch, "B"), 0, "local", consumer_blocks=[block(sch, "C")])


@program(TWO)
def cached_write_for_one(sch):
    sch.cache_write(block(sch, "B"), 0, "local", consumer_blocks=[block(sch, "C")])


@program(IN_PLACE)
def cached_in_place(sch):
    sch.cache_inplace(block(sch, "A"), 0, "local")


@program(RESIZE)
def cached_index(sch):
    sch.cache_index(block(sch, "resize"), "global", 0)


@program(TURNED)
def reindexed(sch):
    sch.reindex(block(sch, "B"), ("read", 0))


@program(TURNED)
def reindexed_write(sch):
    sch.reindex(block(sch, "B"), ("write", 0))


@program(TURNED)
def reindexed_caches(sch):
    sch.reindex_cache_read(block(sch, "B"), 0, "shared", lambda i, j: (i, j // 2, j % 2))
    sch.reindex_cache_write(block(sch, "B"), 0, "local", lambda i, j: (i * 16 + j,))


@program(MATMUL)
def decomposed(sch):
    sch.decompose_reduction(block(sch, "C"), loops(sch, "C")[2])


@program(ROWSUM)
def factored(sch):
    _, k = loops(sch, "B")
    _, inner = sch.split(k, [None, 16])
    sch.rfactor(inner, 0)


@program(MATMUL)
def factored_outer(sch):
    _, _, k = loops(sch, "C")
    outer, _ = sch.split(k, [None, 4])
    sch.rfactor(outer, 2)


@program(MATMUL)
def blocks(sch):
    i, j, k = loops(sch, "C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.blockize(i1)


@program(TWO)
def blocks_of_plain_loops(sch):
    _, j1 = sch.split(loops(sch, "B")[1], [None, 6])
    sch.blockize(j1, preserve_unit_iters=False)


@program(MATMUL)
def tensorized(sch):
    i, j, k = loops(sch, "C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.decompose_reduction(block(sch, "C"), k0)
    sch.tensorize(i1, "trace_dot_4x4")


@program(TWO)
def storage(sch):
    b = block(sch, "B")
    sch.storage_align(b, 0, 0, 8, 4)
    sch.set_scope(b, 0, "shared")
    sch.unsafe_set_dtype(b, 0, "float16")


@program(TWO)
def laid_out(sch):
    sch.transform_layout(block(sch, "B"), ("write", 0), lambda i, j: (j, i // 4, i % 4))


@program(TWO)
def laid_out_with_padding(sch):
    sch.transform_layout(block(sch, "B"), ("write", 0), lambda i, j: (i, j // 5, j % 5), pad_value=0.0)


@program(TWO)
def block_laid_out(sch):
    sch.transform_block_layout(block(sch, "B"), lambda i, j: (i * 24 + j,))


@program(MATMUL)
def axes_reordered(sch):
    sch.reorder_block_iter_var(block(sch, "C"), [2, 0, 1])


@program(PADDED)
def padding_decomposed(sch):
    b = block(sch, "P")
    sch.decompose_padding(b, sch.get_loops(b)[0])


@program(ODD)
def padded_einsum(sch):
    sch.pad_einsum(block(sch, "C_s"), [16, 16, 16])


@program(POOLED)
def rolling(sch):
    i, j, _, _ = loops(sch, "D")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(block(sch, "B"), j0)
    sch.rolling_buffer(block(sch, "B"), 0)


@program(SIDE)
def merged(sch):
    sch.merge(loops(sch, "B")[1], loops(sch, "C")[1])


@program(TWO)
def parted(sch):
    sch.loop_partition(loops(sch, "B")[0], [4, 8, None])


@program(TWO)
def parted_inside(sch):
    sch.loop_partition(loops(sch, "B")[1], [None, 8])


@program(TWO)
def drawn(sch):
    i, _ = loops(sch, "B")
    sch.split(i, sch.sample_partitioned_tile(i, 3, 1, 8, decision=[4, 2, 4]))
    sch.annotate(block(sch, "B"), "unroll", sch.sample_categorical([1, 2, 4], [0.25, 0.25, 0.5], decision=1))
    sch.enter_postproc()
    sch.vectorize(loops(sch, "C")[1])


@program(TWO)
def asked(sch):
    (first,) = sch.get_producers(block(sch, "C"))
    (last,) = sch.get_consumers(first)
    sch.get_child_blocks(block(sch, "root"))
    sch.get_output_blocks(block(sch, "root"))
    sch.unroll(sch.get_loops(last)[1])


@program(SIDE)
def hidden(sch):
    sch.unsafe_hide_buffer_access(block(sch, "B"), "read", [0])


@program(MATMUL)
def copied_at(sch):
    i, j, k = loops(sch, "C")
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    b = block(sch, "C")
    sch.read_at(k0, b, 1, "shared")
    sch.write_at(j0, b, 0, "local")


def source(text):
    if NEW:
        text = text.replace("T.block(", "T.sblock(").replace("T.alloc_buffer(", "T.sblock_alloc_buffer(")
        text = text.replace("@T.prim_func", "@T.prim_func(s_tir=True)")
    return tvm.script.from_source(text)


def plain(found):
    if isinstance(found, (bool, int, float, str)) or found is None:
        return str(found) if isinstance(found, str) else found
    if hasattr(found, "value"):
        return found.value
    return [plain(item) for item in found]


def spelled(trace):
    try:
        return [str(line) for line in trace.as_python()]
    except Exception:  # TVM cannot spell decompose_padding
        return None


def main():
    intrin = tvm.s_tir.TensorIntrin if NEW else tvm.tir.TensorIntrin
    intrin.register("trace_dot_4x4", source(DOT_DESC), source(DOT_IMPL))
    kept = {}
    for name, base, steps in PROGRAMS:
        func = source(base)
        sch = Schedule(func, seed=1)
        try:
            steps(sch)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            continue
        kept[name] = {
            "before": tvm.IRModule({"main": func}).script(),
            "trace": plain(sch.trace.as_json()),
            "python": spelled(sch.trace),
            "after": sch.mod.script(),
        }
    print(json.dumps({"tvm": tvm.__version__, "intrin": [source(DOT_DESC).script(), source(DOT_IMPL).script()],
                      "schedules": kept}, indent=1))


main()
