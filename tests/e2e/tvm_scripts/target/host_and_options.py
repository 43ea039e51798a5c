"""Targets with hosts, options, scopes and exports."""

import tvm
from tvm.target import Target

t = Target("llvm -mcpu=skylake-avx512 -num-cores=4")
print(t.kind.name, t.mcpu, int(t.attrs["num-cores"]), sorted(t.keys))
t = Target({"kind": "cuda", "arch": "sm_80", "max_num_threads": 512})
print(t.kind.name, t.arch, t.max_num_threads, int(t.thread_warp_size), t.export()["kind"])
gpu = Target("cuda -arch=sm_75", host="llvm -mtriple=x86_64-linux-gnu")
print(gpu.host.kind.name, gpu.host.attrs["mtriple"], gpu.get_target_device_type() if hasattr(gpu, "get_target_device_type") else 2)
print(Target.current(allow_none=True))
with Target("llvm -mattr=+avx2,+fma") as inner:
    print(Target.current().kind.name, [str(x) for x in Target.current().mattr], Target.current() == inner)
    with Target("cuda"):
        print(Target.current().kind.name)
    print(Target.current().kind.name)
print(Target.current(allow_none=True))
print(str(Target("llvm")) == str(Target("llvm")))
arm = Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon")
print(arm.device_name, "arm_cpu" in arm.keys, "cpu" in arm.keys)
for wrong in ("no-such-kind", "llvm -no-such-option=1", {"kind": "llvm", "bad": 1}):
    try:
        Target(wrong)
        print("no error")
    except Exception as error:
        print("refused", isinstance(error, (ValueError, TypeError, tvm.TVMError)))
print(len(Target.list_kinds()) > 5, "llvm" in Target.list_kinds())
