"""Passes of one's own over functions, and passes that TVM has."""

import tvm
from tvm import tir
from tvm.ir.transform import PassContext
from tvm.script import tir as T


@T.prim_func
def func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in T.serial(16):
        B[i] = A[i] * T.float32(5) + T.float32(7)


@tir.transform.prim_func_pass(opt_level=0, name="count_stores")
def count_stores(f, mod, ctx):
    found = []
    tir.stmt_functor.post_order_visit(f.body, lambda n: found.append(n) if isinstance(n, tir.BufferStore) else None)
    return f.with_attr("stores", len(found))


mod = tvm.IRModule({"main": func})
mod = count_stores(mod)
print(int(mod["main"].attrs["stores"]), count_stores.info.name, int(count_stores.info.opt_level))


@tir.transform.prim_func_pass(opt_level=1)
class Scale:
    """Multiply every constant."""

    def __init__(self, factor):
        self.factor = factor

    def transform_function(self, f, mod, ctx):
        def change(op):
            if isinstance(op, tir.BufferStore):
                return tir.BufferStore(op.buffer, op.value * tir.const(self.factor, "float32"), op.indices)
            return None

        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, change, ["tir.BufferStore"]))


seen = []
tir.stmt_functor.post_order_visit(
    Scale(3.0)(mod)["main"].body, lambda n: seen.append(n.value) if isinstance(n, tir.FloatImm) else None
)
print(sorted(seen))


@tvm.transform.module_pass(opt_level=0)
def rename(m, ctx):
    return tvm.IRModule({"renamed": m["main"].with_attr("global_symbol", "renamed")})


out = tvm.transform.Sequential([count_stores, rename])(mod)
print([g.name_hint for g in out.get_global_vars()])
with PassContext(opt_level=2, config={"tir.disable_vectorize": True}, disabled_pass=["tir.Simplify"]) as ctx:
    print(int(ctx.opt_level), bool(ctx.config["tir.disable_vectorize"]), list(ctx.disabled_pass))
    print(int(PassContext.current().opt_level) == 2)
simple = tir.transform.Simplify()(mod)
print(isinstance(simple["main"].body, tir.For))


@tvm.instrument.pass_instrument
class Names:
    def __init__(self):
        self.names = []

    def run_before_pass(self, mod, info):
        self.names.append(info.name)


names = Names()
with PassContext(instruments=[names]):
    count_stores(mod)
print(names.names)
