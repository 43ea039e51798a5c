"""Asking functions: work, regions, memory, free variables, well-formedness."""

import tvm
from tvm import te, tir
from tvm.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


mod = tvm.IRModule({"main": matmul})
print(
    tir.analysis.estimate_tir_flops(mod),
    bool(tir.analysis.verify_well_formed(matmul)),
    bool(tir.analysis.verify_memory(matmul.with_attr("target", tvm.target.Target("llvm")))),
)
sch = tir.Schedule(mod)
block = sch.get(sch.get_block("C"))
print(
    len(block.iter_vars),
    [int(v.iter_type) for v in block.iter_vars],
    [r.buffer.name for r in block.reads],
    [w.buffer.name for w in block.writes],
)
reads, writes, opaque = tir.analysis.get_block_access_region(
    block, {b.data: b for b in (matmul.buffer_map[p] for p in matmul.params)}
)
print(len(reads), len(writes), len(opaque), [r.buffer.name for r in writes])
x, y = te.var("x"), te.var("y")
print(bool(tir.analysis.expr_deep_equal(x + 1, x + 1)), bool(tir.analysis.expr_deep_equal(x + 1, y + 1)))
print(
    sorted(v.name for v in tir.analysis.undefined_vars(tir.Evaluate(x + y), [])),
    [v.name for v in tir.analysis.undefined_vars(tir.Evaluate(x + y), [x])],
)
names = []
tir.stmt_functor.post_order_visit(
    matmul.body, lambda node: names.append(node.loop_var.name) if isinstance(node, tir.For) else None
)
print(names)


def renamed(op):
    if isinstance(op, tir.FloatImm):
        return tir.FloatImm(op.dtype, op.value + 1)
    return None


changed = tir.stmt_functor.ir_transform(matmul.body, None, renamed, ["FloatImm"])
values = []
tir.stmt_functor.post_order_visit(changed, lambda n: values.append(n.value) if isinstance(n, tir.FloatImm) else None)
print(values)
ana = tvm.arith.Analyzer()
i = te.var("i")
ana.bind(i, tvm.ir.Range(0, 16))
print(
    ana.simplify(i // 16),
    bool(ana.can_prove(i < 16)),
    ana.const_int_bound(i * 2).max_value,
    ana.modular_set(i * 4 + 2).coeff,
    ana.modular_set(i * 4 + 2).base,
)
print(bool(ana.can_prove_equal((i + 1) * 2, i * 2 + 2)), ana.simplify((i * 8 + 3) % 8), ana.rewrite_simplify(i - i))
with ana.constraint_scope(i > 10):
    print(bool(ana.can_prove(i >= 11)))
print(bool(ana.can_prove(i >= 11)))
m = tvm.arith.detect_linear_equation(x * 4 + y + 2, [x, y])
print([int(v) for v in m])
index_map = tir.IndexMap.from_func(lambda i, j: [j, i // 4, i % 4])
print([int(e) for e in index_map.map_indices([2, 3])], [int(s) for s in index_map.map_shape([8, 5])])
inverse = index_map.inverse([8, 5])
print([int(e) for e in inverse.map_indices([3, 0, 2])])
