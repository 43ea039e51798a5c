"""A pass over relax functions, written with a mutator and as a module pass; patterns."""
import numpy as np
import tvm
from tvm import relax
from tvm.ir.module import IRModule
from tvm.relax.dpl import is_op, rewrite_call, wildcard
from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@I.ir_module
class Model:
    @T.prim_func
    def negate(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = -a[vi, vj]

    @R.function
    def main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Model
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, a)
            c = R.call_tir(cls.negate, (b,), out_sinfo=R.Tensor((4, 4), "float32"))
            d = R.nn.relu(c)
            e = R.add(d, R.const(1, "float32"))
            R.output(e)
        return e


@mutator
class SubtractInstead(PyExprMutator):
    def __init__(self, mod):
        super().__init__(mod)
        self.mod = mod
        self.count = 0

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op == tvm.ir.Op.get("relax.add"):
            self.count += 1
            return relax.op.subtract(call.args[0], call.args[1])
        return call

    def run(self):
        for gv, func in self.mod.functions.items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(gv, self.visit_expr(func))
        return self.builder_.get()


@tvm.transform.module_pass(opt_level=0, name="Sub")
class SubPass:
    def transform_module(self, mod: IRModule, ctx) -> IRModule:
        m = SubtractInstead(mod)
        out = m.run()
        print("replaced", m.count, ctx.opt_level)
        return out


@visitor
class Ops(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []

    def visit_call_(self, call):
        self.names.append(call.op.name)
        for arg in call.args:
            self.visit_expr(arg)


def ops(f):
    v = Ops()
    v.visit_expr(f)
    return v.names


print(ops(Model["main"]))
new = SubPass()(Model)
print(ops(new["main"]))

x, y = wildcard(), wildcard()
pat = is_op("relax.multiply")(x, x)


def square(call, matched):
    return relax.op.power(matched[x], relax.const(2, "float32"))


f = rewrite_call(pat, square, Model["main"])
print(ops(f))

seq = tvm.transform.Sequential([
    relax.transform.LegalizeOps(),
    relax.transform.AnnotateTIROpPattern(),
    relax.transform.FuseOps(),
    relax.transform.FuseTIR(),
    relax.transform.DeadCodeElimination(["main"]),
])
with tvm.transform.PassContext(opt_level=3):
    fused = seq(Model)
print([name for name in (g.name_hint for g in fused.get_global_vars()) if name == "main"])
ex = relax.build(new, tvm.target.Target("llvm"))
vm = relax.VirtualMachine(ex, tvm.cpu())
a = np.arange(16, dtype="float32").reshape(4, 4)
b = np.full((4, 4), 5, "float32")
got = vm["main"](tvm.nd.array(a), tvm.nd.array(b)).numpy()
print(got[0], np.allclose(got, np.maximum(-((a - b) ** 2), 0) - 1))
