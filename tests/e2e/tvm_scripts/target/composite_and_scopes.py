"""Targets of many kinds: composite ones, scopes, hosts, what they export."""
import json

import tvm
from tvm.target import Target

cpu = Target("llvm -mcpu=core-avx2 -num-cores 4")
gpu = Target("cuda -arch=sm_80", host=cpu)
both = Target({"kind": "composite", "tag": "", "keys": ["cpu", "gpu"], "devices": ["llvm -mcpu=core-avx2", "cuda -arch=sm_80"]})
print(both.kind.name, len(both.attrs["devices"]), [t.kind.name for t in both.attrs["devices"]])
print(sorted(set(both.export()) - {"tag"}))
print(Target.current(allow_none=True))
with cpu:
    print(Target.current().kind.name, Target.current().attrs["num-cores"])
    with gpu:
        print(Target.current().kind.name, Target.current().host.kind.name, Target.current().arch)
    print(Target.current() == cpu)
try:
    Target.current(allow_none=False)
except tvm.error.TVMError:
    print("none")
print(gpu.export()["host"]["kind"], gpu.max_num_threads, gpu.thread_warp_size)
print(Target(gpu).kind.name, Target("cuda", "llvm").host.kind.name)
h = Target(gpu, host="llvm")
print(list(h.host.keys), list(h.keys))
print(Target("nvidia/nvidia-a100").attrs["max_shared_memory_per_block"])
a, b = Target.canon_target_and_host("cuda", "llvm") if hasattr(Target, "canon_target_and_host") else (gpu, cpu)
print(a.kind.name, b.kind.name)
m = Target.canon_target_map_and_host({"llvm": "llvm"}, "llvm")
print(len(m[0]), m[1].kind.name)
print(Target.canon_multi_target_and_host(["llvm"], "llvm")[0].host.kind.name)
try:
    Target("nosuch")
except ValueError:
    print("no such kind")
try:
    Target({"kind": "llvm", "bogus": 1})
except ValueError:
    print("no such option")
print(cpu.with_host("llvm").host.kind.name if hasattr(cpu, "with_host") else "llvm")
print(sorted(Target("llvm").kind.options)[:5], Target("cuda").get_target_device_type(), list(Target("vulkan").keys))
print(tvm.target.Target("c").kind.name, list(Target("webgpu").keys), list(Target("opencl -device=mali").keys))
print(tvm.ir.structural_equal(Target("llvm -mcpu=skylake"), Target("llvm -mcpu=skylake")))
print(json.dumps({k: v for k, v in Target("llvm -mcpu=skylake").export().items() if isinstance(v, str) and v}, sort_keys=True))
