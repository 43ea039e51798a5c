"""Modules as mappings, attributes of functions, passes of TVM and of one's own."""

import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def twice(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "twice"})
    A = T.match_buffer(a, (16,), "float32")
    B = T.match_buffer(b, (16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * (1.0 + 1.0)


mod = tvm.IRModule({"twice": twice})
print(
    list(v.name_hint for v in mod.functions),
    "twice" in [g.name_hint for g in mod.get_global_vars()],
    mod["twice"].same_as(twice) or True,
)
print(twice.attrs["global_symbol"], len(twice.params), len(twice.buffer_map), twice.buffer_map[twice.params[0]].name)
named = twice.with_attr("tir.noalias", True).with_attr({"global_symbol": "other", "level": 3})
print(sorted(str(k) for k in named.attrs.keys()), named.attrs["global_symbol"], int(named.attrs["level"]))
print("level" in named.without_attr("level").attrs.keys(), "global_symbol" in twice.attrs.keys())
mod.update(tvm.IRModule({"other": named}))
print(sorted(g.name_hint for g in mod.get_global_vars()), mod.get_global_var("other").name_hint)
with_attr = mod.with_attr("version", tvm.runtime.String("7"))
print(with_attr.attrs["version"], with_attr.get_attr("version"), with_attr.get_attr("nothing"))
for wrong in (lambda: mod["nothing"], lambda: mod.get_global_var("nothing")):
    try:
        wrong()
        print("no error")
    except Exception as error:
        print(isinstance(error, (ValueError, KeyError, tvm.TVMError)))

simplified = tir.transform.Simplify()(mod)
print(type(simplified).__name__, tvm.ir.structural_equal(simplified["twice"], simplified["twice"]))


@tir.transform.prim_func_pass(opt_level=0)
def rename(func, mod, ctx):
    return func.with_attr("seen", int(ctx.opt_level))


with tvm.transform.PassContext(opt_level=2):
    print(int(rename(mod)["twice"].attrs["seen"]))
print(rename.info.name, rename.info.opt_level)


@tvm.transform.module_pass(opt_level=1, name="count")
class Count:
    def transform_module(self, mod, ctx):
        print("functions:", len(mod.functions))
        return mod


seq = tvm.transform.Sequential([Count(), tir.transform.Simplify(), rename])
with tvm.transform.PassContext(opt_level=3):
    out = seq(mod)
print(int(out["other"].attrs["seen"]), seq.info.name)
with tvm.transform.PassContext(config={"tir.disable_vectorize": True}) as ctx:
    print(bool(ctx.config["tir.disable_vectorize"]), tvm.transform.PassContext.current().opt_level)
try:
    tvm.transform.PassContext(config={"tir.no_such_option": 1})
    print("no error")
except AttributeError:
    print("AttributeError")
n = tvm.ir.load_json(tvm.ir.save_json(mod))
print(tvm.ir.structural_equal(n, mod))


@tvm.instrument.pass_instrument
class Names:
    def run_before_pass(self, mod, info):
        print("before", info.name)


with tvm.transform.PassContext(instruments=[Names()]):
    tir.transform.Simplify()(mod)
