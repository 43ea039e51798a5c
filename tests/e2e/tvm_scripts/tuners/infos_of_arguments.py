"""Notes of meta_schedule about a function's arguments."""

from tvm import meta_schedule as ms
from tvm.script import tir as T


@T.prim_func
def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "int8")):
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.Cast("int8", A[vi, 0])


infos = ms.arg_info.ArgInfo.from_prim_func(func)
print([type(info).__name__ for info in infos])
print([(str(info.dtype), [int(d) for d in info.shape]) for info in infos])
print([str(info) for info in infos])
one = ms.arg_info.TensorInfo("float32", (3, 4))
print(one.as_json())
print(str(ms.arg_info.TensorInfo.from_json(one.as_json()).dtype))
config = ms.runner.EvaluatorConfig(number=2, repeat=3)
print(config.number, config.repeat, config.min_repeat_ms, config.enable_cpu_cache_flush)
result = ms.runner.RunnerResult([0.1, 0.2], None)
print([float(sec) for sec in result.run_secs], result.error_msg)
built = ms.builder.BuilderResult("a.tar", None)
print(built.artifact_path, built.error_msg)
