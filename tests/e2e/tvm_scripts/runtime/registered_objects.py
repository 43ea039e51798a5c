"""Registered functions and containers kept as JSON, processes for functions, shared variables."""

import os

import tvm
from tvm import te
from tvm.contrib.popen_pool import PopenPoolExecutor, StatusKind

tvm.register_func("tests.objects.add", lambda x: x + 1)
found = tvm.ir.load_json(tvm.ir.save_json(tvm.ir.EnvFunc.get("tests.objects.add")))
print(found.name, found(3))
x = te.var("x")
items = tvm.ir.load_json(tvm.ir.save_json(tvm.runtime.convert([x, x, {"a": 2}])))
print(items[0].same_as(items[1]), items[0].name, items[2]["a"].value, len(items))
pool = PopenPoolExecutor(max_workers=2, timeout=60)
results = list(pool.map_with_error_catching(os.fspath, ["a", "b", 3]))
print([result.status == StatusKind.COMPLETE for result in results], [result.value for result in results[:2]])
print(bool(tvm.tir.analysis.expr_deep_equal(x + 1, x + 1)))
