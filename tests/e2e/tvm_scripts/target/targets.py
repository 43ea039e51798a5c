"""Targets: parsing, attributes, hosts, scopes, export, tags, generic functions."""

import tvm
from tvm.target import Target

t = Target("llvm -mcpu=core-avx2 -num-cores=4")
print(t.kind.name, sorted(t.keys), t.mcpu, t.attrs["num-cores"], t.device_name, t.model, list(t.libs))
print(t.export()["kind"], t.host)
t = Target("cuda -arch=sm_80 -max_threads_per_block=512", host="llvm")
print(t.kind.name, sorted(t.keys), t.arch, t.host.kind.name, t.thread_warp_size)
t = Target({"kind": "cuda", "arch": "sm_70", "host": {"kind": "llvm", "mcpu": "skylake"}})
print(t.host.mcpu, t.attrs["arch"])
print(tvm.target.cuda(arch="sm_61").arch, list(tvm.target.arm_cpu("rasp4b").keys))
print("+neon" in tvm.target.arm_cpu("rasp4b").attrs["mattr"], tvm.target.intel_graphics().kind.name)
print(Target("nvidia/geforce-rtx-3090").arch, "nvidia/nvidia-a100" in tvm.target.list_tags())
print(Target.current(allow_none=True))
with Target("llvm") as a:
    with Target("cuda -arch=sm_75") as b:
        print(Target.current().kind.name)
    print(Target.current().kind.name, Target.current() == a)
for wrong in ("no_such_kind", "llvm -no_such_option=1", ""):
    try:
        Target(wrong)
        print("no error")
    except (ValueError, tvm.TVMError):
        print("refused")
print(str(Target("llvm")) == str(Target("llvm")), tvm.ir.structural_equal(Target("llvm"), Target("llvm")))
print(Target("llvm").with_host("llvm -mcpu=core2").host.mcpu)


@tvm.target.generic_func
def mygeneric(data):
    return data + 1


@mygeneric.register(["cuda", "gpu"])
def cuda_func(data):
    return data + 2


@mygeneric.register("rocm")
def rocm_func(data):
    return data + 3


@mygeneric.register("cpu")
def cpu_func(data):
    return data + 10


for name in ("cuda", "llvm", "metal", "c"):
    with Target(name):
        print(name, mygeneric(1))


@tvm.target.override_native_generic_func("my.override")
def over(data):
    return data * 2


with Target("llvm"):
    print(over(4))
