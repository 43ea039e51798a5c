"""Vectors of x86 CPUs as schedules ask for them, constants of numpy's and Python's numbers, objects linked together."""

import numpy as np
import tvm
from tvm import te
from tvm.contrib import cc, tar, utils
from tvm.target.x86 import get_simd_32bit_lanes, target_has_features

for name in ["skylake-avx512", "core-avx2", "nehalem"]:
    with tvm.target.Target(f"llvm -mcpu={name}"):
        print(name, get_simd_32bit_lanes(), bool(target_has_features("avx2")), bool(target_has_features("avx512bw")))

for value in [3, 2**31, 2**40, -(2**31), True, 1.5, np.int8(3), np.int64(3), np.float16(2), np.float64(2)]:
    print(type(value).__name__, tvm.tir.const(value).dtype)
i = te.var("i")
print((i + 2**40).dtype, (te.var("b", "int8") + 300).dtype, (te.var("l", "int64") + 2**40).dtype)


def build(name, add):
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + add, name="B")
    return tvm.build(te.create_schedule(B.op), [A, B], "llvm", name=name)


temp = utils.tempdir()
for name, add in [("one", 1.0), ("two", 2.0)]:
    build(name, add).save(temp.relpath(name + ".o"))
objects = [temp.relpath("one.o"), temp.relpath("two.o")]
cc.create_shared(temp.relpath("both.so"), objects)
tar.tar(temp.relpath("both.tar"), objects)
for ending in ["so", "tar"]:
    loaded = tvm.runtime.load_module(temp.relpath(f"both.{ending}"))
    a, b = tvm.nd.array(np.zeros(4, "float32")), tvm.nd.empty((4,))
    for name in ["one", "two"]:
        loaded[name](a, b)
        print(ending, name, b.numpy().tolist())
print(bool(loaded.implements_function("two")), bool(loaded.implements_function("three")))
