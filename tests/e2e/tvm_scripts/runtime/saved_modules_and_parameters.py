"""Modules and parameters as text and bytes, and back."""
import numpy as np
import tvm
from tvm.contrib import utils
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@I.ir_module
class Mod:
    @T.prim_func
    def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            with T.block("copy"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Mod
        with R.dataflow():
            y = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((8,), "float32"))
            z = R.add(y, R.const(np.arange(8, dtype="float32")))
            R.output(z)
        return z


text = tvm.ir.save_json(Mod)
back = tvm.ir.load_json(text)
tvm.ir.assert_structural_equal(Mod, back)
print(tvm.ir.structural_equal(Mod, back), tvm.ir.structural_hash(Mod) == tvm.ir.structural_hash(back))
print(back.script() == Mod.script())
f2 = tvm.ir.load_json(tvm.ir.save_json(Mod["copy"]))
print(tvm.ir.structural_equal(f2, Mod["copy"]))
params = {"w": tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3)), "b": tvm.nd.array(np.array([1, 2], "int64")),
          "h": tvm.nd.array(np.array([[0.5]], "float16"))}
blob = tvm.runtime.save_param_dict(params)
print(blob[:8].hex())
loaded = tvm.runtime.load_param_dict(blob)
print({k: (v.shape, v.dtype, v.numpy().tolist()) for k, v in sorted(loaded.items())})
tmp = utils.tempdir()
path = tmp.relpath("p.bin")
tvm.runtime.save_param_dict_to_file(params, path)
print(sorted(tvm.runtime.load_param_dict_from_file(path)))
try:
    tvm.ir.assert_structural_equal(Mod["copy"], Mod["copy"].with_attr("global_symbol", "other"))
except ValueError:
    print("they differ")
