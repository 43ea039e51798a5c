"""A code generator of one's own for parts of a graph, found by patterns."""
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.dpl import is_op, make_fused_bias_activation_pattern, wildcard
from tvm.relax.expr_functor import PyExprVisitor, visitor
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((2, 8), "float32"):
        with R.dataflow():
            a = R.matmul(x, w)
            c = R.add(a, b)
            d = R.nn.relu(c)
            e = R.exp(d)
            R.output(e)
        return e


register_patterns([("e2e.dense", make_fused_bias_activation_pattern("relax.matmul", with_bias=True, activation="relax.nn.relu"))])
pats = get_patterns_with_prefix("e2e")
print([p.name for p in pats])
m = relax.transform.FuseOpsByPattern(pats, bind_constants=False, annotate_codegen=True)(M)
m = relax.transform.MergeCompositeFunctions()(relax.transform.FuseOpsByPattern(pats, bind_constants=False)(M))
names = sorted(g.name_hint for g in m.get_global_vars())
print(len(names), "main" in names)
for g in m.get_global_vars():
    if m[g].attrs and "Codegen" in m[g].attrs:
        print(m[g].attrs["Codegen"], g.name_hint == m[g].attrs["global_symbol"], g.name_hint.endswith("_e2e"))




@visitor
class Count(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def visit_call_(self, op):
        self.calls += 1
        super().visit_call_(op)


c = Count()
c.visit_expr(M["main"])
print(c.calls)
pat = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard()))
print(bool(pat.match(relax.op.nn.relu(relax.op.add(relax.op.matmul(M["main"].params[0], M["main"].params[1]), M["main"].params[2])))))
