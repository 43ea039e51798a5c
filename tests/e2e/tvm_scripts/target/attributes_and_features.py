"""Answers of targets: their keys, limits, features and hosts."""

import tvm
from tvm.target import Target, VirtualDevice

cpus = [
    "llvm -mcpu=skylake-avx512",
    "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon",
    "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1",
    "llvm -mtriple=aarch64-linux-gnu -mattr=+v9a",
    "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+fullfp16",
    "llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon",
    "llvm -mcpu=cortex-m55 -mtriple=thumb-none-eabi",
    "llvm -keys=arm_cpu,cpu -mcpu=cortex-m7",
    "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v",
    "llvm -num-cores=8 -mattr=+avx2",
    "c",
    "c -mcpu=cortex-m55",
    "c -mcpu=cortex-m4",
    "c -mcpu=cortex-m0",
    "c -keys=cpu",
    "raspberry-pi/4b-aarch64",
    "aws/cpu/c5.large",
    "hexagon",
    "composite",
    "hybrid",
    "ext_dev",
]
arm = ("has_asimd", "has_dotprod", "has_sve", "has_fp16_simd", "has_matmul_i8", "is_aarch64")
for text in cpus:
    target = Target(text)
    features = [name for name in arm + ("has_mve", "has_dsp") if bool(getattr(target.features, name))]
    cores = target.attrs.get("num-cores")
    print(text, "|", target.kind.name, [str(key) for key in target.keys], features, cores is not None and int(cores))
    print("   ", target.mcpu or "no cpu", sorted(str(name) for name in target.mattr or []), target.get_target_device_type())

gpus = [
    "cuda -arch=sm_80",
    "cuda -arch=sm_61 -libs=cudnn,cublas",
    "cuda -arch=sm_50 -model=titanx",
    "nvptx -mcpu=sm_70",
    "rocm -mcpu=gfx906",
    "opencl",
    "opencl -device=mali",
    "opencl -device=adreno",
    "metal",
    "vulkan -max_num_threads=128",
    "webgpu",
    "nvidia/nvidia-a100",
    "nvidia/geforce-rtx-3090",
    "nvidia/nvidia-v100",
    "nvidia/geforce-gtx-1080",
    "nvidia/geforce-rtx-4090",
    "nvidia/nvidia-t4",
    "nvidia/jetson-nano",
]
limits = (
    "max_num_threads",
    "thread_warp_size",
    "max_threads_per_block",
    "max_shared_memory_per_block",
    "registers_per_block",
    "l2_cache_size_bytes",
    "max_function_args",
    "texture_spatial_limit",
)
for text in gpus:
    target = Target(text)
    known = {name: int(target.attrs[name]) for name in limits if name in target.attrs and text != "webgpu"}
    print(text, "|", target.kind.name, [str(key) for key in target.keys], [str(lib) for lib in target.libs], target.model)
    print("   ", known, target.max_num_threads, target.device_name, target.get_target_device_type())
print(Target("cuda -arch=sm_80").supports_integer_dot_product, Target("cuda -arch=sm_60").supports_integer_dot_product)

# the code that drives a GPU
both = Target("cuda -arch=sm_80", host="llvm -mcpu=skylake-avx512")
print(both.host.kind.name, both.host.mcpu, Target("cuda -arch=sm_80").host is None)
again = Target(Target("cuda -arch=sm_80"), "llvm -mcpu=cascadelake")
print(again.kind.name, again.host.mcpu, both.with_host("llvm -mcpu=znver3").host.mcpu)
found, host = Target.canon_target_and_host({"kind": "cuda", "arch": "sm_75"}, "llvm -mcpu=haswell")
print(found.arch, found.host.mcpu, host.mcpu)
nested = Target({"kind": "cuda", "arch": "sm_75", "host": {"kind": "llvm", "mcpu": "haswell"}})
print(nested.host.mcpu, nested.export()["host"]["kind"], nested.export()["arch"])
with Target("nvidia/nvidia-a100"):
    print(Target.current().arch, int(Target.current().max_shared_memory_per_block))
with Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76") as current:
    print(bool(current.features.has_dotprod), [str(key) for key in current.keys][0])

# where data lies
place = VirtualDevice(tvm.cuda(1), Target("cuda -arch=sm_80"), "shared")
print(place.device_type_int, place.virtual_device_id, place.memory_scope, place.target.kind.name)
nowhere = VirtualDevice()
print(nowhere.device_type_int, nowhere.virtual_device_id, repr(str(nowhere.memory_scope)), nowhere.target)
