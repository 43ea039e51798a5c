"""Targets as contexts: the current one, its host, and functions that depend on it."""

import tvm
from tvm.target import Target

print(Target.current(allow_none=True))
with Target("llvm -mcpu=skylake-avx512"):
    print(Target.current().kind.name, Target.current().mcpu)
    with Target("cuda -arch=sm_80", host="llvm"):
        print(Target.current().kind.name, Target.current().host.kind.name)
    print(Target.current().kind.name)
print(Target.current(allow_none=True))


@tvm.target.generic_func
def describe(what):
    return f"any {what}"


@describe.register(["cuda", "gpu"])
def _(what):
    return f"gpu {what}"


@describe.register("arm_cpu")
def _(what):
    return f"arm {what}"


for text in ("llvm", "cuda", "llvm -device=arm_cpu", "opencl"):
    with Target(text):
        print(text, describe("kernel"))
made = Target(Target("cuda"), host=Target("llvm"))
print(made.kind.name, made.host.kind.name, list(made.keys))
print(list(Target("llvm -keys=mine,cpu").keys), Target("llvm -device=arm_cpu").device_name)
print(Target("nvidia/nvidia-a100").arch, Target("nvidia/nvidia-a100").max_num_threads)
