"""Answers of targets of many kinds."""

import tvm
from tvm.target import Target

for text in ("llvm", "cuda", "opencl", "metal", "vulkan", "c", "hexagon"):
    t = Target(text)
    print(text, t.kind.name, sorted(t.keys))
t = Target("llvm -mcpu=skylake-avx512 -num-cores=8 -keys=cpu,mine")
print(t.mcpu, int(t.attrs["num-cores"]), "mine" in t.keys)
t = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
print(t.mcpu, t.export()["mcpu"], t.export()["num-cores"])
print(Target(t.export()).mcpu == t.mcpu, str(Target(str(t))) == str(t))
tag = Target("nvidia/nvidia-a100")
print(
    tag.kind.name,
    tag.arch,
    int(tag.max_num_threads),
    int(tag.thread_warp_size),
    int(tag.attrs["max_shared_memory_per_block"]),
)
print("nvidia/nvidia-a100" in tvm.target.list_tags(), Target("raspberry-pi/4b-aarch64").kind.name)
host = Target("cuda", host="llvm -mcpu=core2")
print(host.host.mcpu, Target("cuda").host is None)
pair = Target.canon_target_and_host("cuda", "llvm")
print(pair[0].kind.name, pair[1].kind.name)
print(Target.canon_target(None), Target.canon_target("llvm").kind.name)
print(Target.list_kinds().count("llvm") if hasattr(Target, "list_kinds") else 1)
