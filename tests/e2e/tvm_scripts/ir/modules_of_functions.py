"""Modules: functions by name, attributes, updates and copies."""

import tvm
from tvm import tir
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def first(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "first", "note": 3})
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)

    @T.prim_func
    def second(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "second"})
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * 2


print(sorted(var.name_hint for var in Module.get_global_vars()))
print(int(Module["first"].attrs["note"]), "note" in Module["second"].attrs)
print(Module.get_global_var("second").name_hint)
try:
    Module["third"]
except Exception as error:
    print("no third")
changed = Module["first"].with_attr("note", 4)
print(int(changed.attrs["note"]), int(Module["first"].attrs["note"]))
copy = tvm.IRModule({"main": changed.with_attr("global_symbol", "main")})
copy["other"] = Module["second"]
print(sorted(var.name_hint for var in copy.get_global_vars()))
del_attr = changed.without_attr("note")
print("note" in del_attr.attrs)
joined = tvm.IRModule({})
joined.update(Module)
print(len(joined.functions), tvm.ir.structural_equal(joined["first"], Module["first"]))
print(tvm.ir.structural_equal(Module, tvm.script.from_source(Module.script())))
print([str(param.dtype) for param in Module["first"].params], len(Module["first"].buffer_map))
kept = tvm.ir.load_json(tvm.ir.save_json(Module["second"]))
print(tvm.ir.structural_equal(kept, Module["second"]), isinstance(kept, tir.PrimFunc))
