"""Targets made by functions, of data and with options in many forms; what is wrong with them; functions by target."""

import tvm
from tvm.target import Target


def told(target, *names):
    """The kind, the keys and some options of a target."""
    given = {}
    for name in names:
        value = target.attrs.get(name)
        if value is None:
            continue
        given[name] = sorted(str(x) for x in value) if name in ("mattr", "libs", "llvm-options") else str(value)
    return target.kind.name, [str(key) for key in target.keys], given


# functions that make targets
for board in (
    "pixel2", "mate10", "mate10pro", "p20", "p20pro", "rk3399", "ultra96", "pynq", "beagleai", "stm32mp1", "thunderx",
    "my-own-board",
):  # fmt: skip
    made = tvm.target.arm_cpu(board)
    print(board, told(made, "device", "mattr", "mcpu"), made.model, made.device_name)
for board in ("rasp3b", "rasp4b", "rasp4b64"):
    made = tvm.target.arm_cpu(board, "-num-cores=2")
    print(board, told(made, "device"), made.model, "+neon" in made.mattr, int(made.attrs["num-cores"]))
print("rasp", tvm.target.rasp().model, tvm.target.rasp("-num-cores=2").attrs["num-cores"])
for cpu in ("sifive-e31", "sifive-e76", "sifive-u54", "sifive-u74"):
    made = tvm.target.riscv_cpu(cpu)
    print(cpu, made.kind.name, made.mcpu, made.model, made.attrs["mabi"], made.attrs["mtriple"])
for version in ("v65", "v66", "v68", "v69", "v73"):
    made = tvm.target.hexagon(version)
    print(version, told(made, "mattr", "mcpu", "mtriple", "vtcm-capacity", "llvm-options", "num-cores"))
made = tvm.target.hexagon("v68", hvx=64, num_cores=2, vtcm_capacity=4096, llvm_options="-one -two")
print("hexagon", told(made, "mattr", "vtcm-capacity", "llvm-options", "num-cores"), made.vtcm_capacity)
print("hexagon", told(tvm.target.hexagon("v66", hvx=0), "mattr"))
for made in (
    tvm.target.cuda(),
    tvm.target.cuda(arch="sm_80"),
    tvm.target.cuda("v100", options="-max_threads_per_block=64"),
    tvm.target.mali("t860"),
    tvm.target.bifrost(),
    tvm.target.intel_graphics(),
    tvm.target.create("llvm -mcpu=haswell"),
):
    print(told(made, "arch", "device", "mcpu", "max_threads_per_block", "thread_warp_size"), made.model)

# the same target in several forms
forms = [
    "llvm -mcpu=haswell -num-cores=2",
    "  llvm   --mcpu haswell --num-cores 2",
    {"kind": "llvm", "mcpu": "haswell", "num-cores": 2},
    '{"kind": "llvm", "mcpu": "haswell", "num-cores": 2}',
    Target("llvm -mcpu=haswell -num-cores=2"),
    Target("llvm -mcpu=haswell -num-cores=2").export(),
    str(Target("llvm -mcpu=haswell -num-cores=2")),
]
print([told(Target(form), "mcpu", "num-cores") for form in forms])
print(
    len({str(Target(form)) for form in forms}), all(tvm.ir.structural_equal(Target(forms[0]), Target(f)) for f in forms)
)
gpus = [
    Target("cuda -arch=sm_75 -libs=cudnn,cublas"),
    Target({"kind": "cuda", "arch": "sm_75", "libs": ["cudnn", "cublas"], "host": {"kind": "llvm", "mcpu": "haswell"}}),
    Target({"kind": "cuda", "tag": "mine", "arch": "sm_75", "keys": ["own", "gpu"]}),
    Target("cuda -arch=sm_75", host={"kind": "c"}),
    Target("cuda -arch=sm_75").with_host(Target("llvm -mcpu=znver2")),
    Target({"kind": "opencl", "device": "mali", "max_function_args": 64}),
    Target({"kind": "vulkan", "supports_float16": True, "max_num_threads": 128}),
    Target({"kind": "metal", "thread_warp_size": 32}),
]
for gpu in gpus:
    host = gpu.host
    print(
        told(gpu, "libs", "arch", "max_threads_per_block"),
        gpu.tag,
        None if host is None else (host.kind.name, host.mcpu),
    )
    print("   ", gpu.max_num_threads, gpu.thread_warp_size, gpu.arch, gpu.model, gpu.get_target_device_type())
print(bool(gpus[6].attrs["supports_float16"]), "supports_float16" in gpus[5].attrs, gpus[0].attrs.get("no_such", "no"))
print([t.kind.name for t in Target.canon_multi_target(multi_targets=["llvm", "cuda"])], Target.canon_multi_target(None))
print([t.host.kind.name for t in Target.canon_multi_target_and_host(target=["cuda", "opencl"], target_host="llvm")])
print(
    [t if t is None else t.kind.name for t in Target.canon_target_and_host("cuda")], Target.canon_target_and_host(None)
)
print(
    list(Target("vulkan").kind.default_keys),
    int(Target("metal").kind.default_device_type),
    Target("nvptx -mcpu=sm_75").arch,
)
print(bool(Target("llvm").get_kind_attr("is_external_codegen")), bool(Target("llvm").features.has_no_such_thing))
a100 = tvm.target.list_tags()["nvidia/nvidia-a100"]
print(a100.kind.name, a100.attrs["arch"], len(tvm.target.list_tags()) > 200, "no/such" in tvm.target.list_tags())

# what is wrong
wrong = [
    "no-such-kind",
    "llvm -no-such-option=1",
    "llvm -num-cores=many",
    "llvm -mcpu=a -mcpu=b",
    "llvm word",
    "nvidia/no-such-gpu",
    '{"kind": ',
    {"mcpu": "haswell"},
]
for spec in wrong:
    try:
        print(spec, Target(spec))
    except ValueError:
        print(spec, "is refused with a ValueError")
for spec in ("", {"kind": "llvm", "mcpu": 3}, {"kind": "cuda", "host": "no-such-kind"}):
    try:
        print(spec, Target(spec))
    except (ValueError, tvm.TVMError):
        print(spec, "is refused")
for target, name in ((Target("llvm"), "no_such_attribute"), (Target("cuda"), "no_such_attribute")):
    print(hasattr(target, name))
try:
    Target.current(allow_none=False)
except tvm.TVMError:
    print("no target is active")


# functions by target
@tvm.target.generic_func
def rule(x):
    return x


@rule.register(["cuda", "gpu"])
def _rule_gpu(x):
    return x + 1


@rule.register("arm_cpu")
def _rule_arm(x):
    return x + 2


answers = [rule(10)]
for text in ("cuda", "vulkan", "llvm -device=arm_cpu", "llvm", "opencl -device=mali", "llvm -keys=mine,arm_cpu,cpu"):
    with Target(text):
        answers.append(rule(10))
print(answers, sorted(rule.dispatch_dict), rule.fdefault(1), rule.__name__)
try:
    rule.register("cuda", _rule_arm)
except ValueError:
    print("there is one for cuda")
rule.register("cuda", _rule_arm, override=True)
with Target("cuda"):
    print(rule(10))


@tvm.target.override_native_generic_func("constructors_and_configs.rule")
def native(x):
    return -x


@native.register("cuda")
def _native_cuda(x):
    return x


with Target("cuda"):
    print(native(3), Target.current().kind.name)
print(native(3), tvm.target.get_native_generic_func("constructors_and_configs.rule") is not None)
with Target("llvm -mcpu=haswell") as outer:
    with Target("cuda", host=outer):
        print(Target.current().host.mcpu, Target.current(allow_none=False).kind.name)
    print(Target.current().mcpu, Target.current() is outer or Target.current().mcpu == outer.mcpu)
print(Target.current() is None)
