"""Tags, constructors, canonical forms and generic functions of targets."""

from __future__ import annotations

import pytest

from compiler.errors import TargetError
from compiler.runtime.core.device import Device, cpu, cuda
from compiler.target import constructors as make
from compiler.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from compiler.target.tags import register_tag
from tunefarm.target import Target

RASPBERRY = "raspberry-pi/4b-aarch64"


def test_a_tag_stands_for_a_target() -> None:
    target = Target(RASPBERRY)
    assert (target.kind, target.mcpu, target.num_cores, target.tag) == ("llvm", "cortex-a72", 4, RASPBERRY)
    assert target.keys == ("arm_cpu", "cpu")
    assert target.device_name == "arm_cpu"
    assert Target(str(target)) == target == Target({"tag": RASPBERRY}) == Target(target.export())


def test_options_beside_a_tag_win() -> None:
    assert Target(f"{RASPBERRY} -num-cores=2").num_cores == 2
    assert Target({"tag": RASPBERRY, "mcpu": "cortex-a53"}).mcpu == "cortex-a53"


def test_every_tag_reads_and_prints() -> None:
    for tag in Target.list_tags():
        assert Target(str(Target(tag))) == Target(tag)
    assert Target("nvidia/jetson-agx-xavier").host == Target(
        "llvm -keys=arm_cpu,cpu -device=arm_cpu -model=xavier -mtriple=aarch64-linux-gnu -mcpu=carmel -mattr=+neon "
        "-num-cores=8"
    )


def test_registering_a_tag() -> None:
    register_tag("test/board", {"kind": "llvm", "num-cores": 3}, override=True)
    assert Target("test/board").num_cores == 3
    with pytest.raises(TargetError, match="already registered"):
        register_tag("test/board", {"kind": "llvm"})
    with pytest.raises(TargetError, match="is no tag"):
        register_tag("board", {"kind": "llvm"})
    with pytest.raises(TargetError, match="has no kind"):
        register_tag("test/none", {})


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("llvm -mcp=znver3", "no option 'mcp'.*did you mean 'mcpu'.*known: .*mtriple"),
        ("cudaa", "did you mean 'cuda'.*known: .*llvm"),
        ("raspberry-pi/9", "is unknown.*list_tags"),
    ],
)
def test_names_nobody_knows(spec: str, match: str) -> None:
    with pytest.raises(TargetError, match=f"(?s){match}"):
        Target(spec)


def test_constructors() -> None:
    assert make.arm_cpu("rasp4b64") == Target(RASPBERRY)
    assert make.arm_cpu().keys == ("arm_cpu", "cpu")
    assert make.arm_cpu("rk3399", "-num-cores=6").num_cores == 6
    assert make.riscv_cpu().mcpu == "sifive-u54"
    assert make.mali().keys == ("mali", "opencl", "gpu")
    assert make.bifrost("g72").model == "g72"
    assert make.intel_graphics().thread_warp_size == 16
    assert make.rocm().kind == "rocm"
    assert make.hexagon("v66").mcpu == "hexagonv66"
    assert make.cuda("nvidia-a100").arch == "sm_80"
    assert make.cuda("geforce-rtx-3090", options="-max_threads_per_block=512").max_num_threads == 512
    assert make.llvm(["-mcpu=znver3", "-num-cores=2"]) == Target("llvm -mcpu=znver3 -num-cores=2")
    assert make.rasp("-num-cores=2") == Target("raspberry-pi/3b -num-cores=2")
    assert make.arm_cpu("pixel2").triple == "arm64-linux-android"
    assert make.arm_cpu("p20pro").model == "kirin970"
    own = make.arm_cpu("my-board", "-mcpu=cortex-a53")
    assert (own.model, own.mcpu, own.triple, own.keys) == ("my-board", "cortex-a53", None, ("arm_cpu", "cpu"))
    assert make.riscv_cpu("sifive-e76").attrs["mabi"] == "ilp32"
    dsp = make.hexagon("v69", num_cores=2, llvm_options="-x -y", link_params=True)
    assert (dsp.vtcm_capacity, dsp.num_cores, dsp.attrs["llvm-options"]) == (8 << 20, 2, ("-x", "-y"))
    assert dsp.mattr == ("+hvxv69", "+hvx-length128b", "+hvx-qfloat", "-hvx-ieee-fp")
    assert make.hexagon("v65", hvx=0, vtcm_capacity=5).mattr == ("-hvx",)
    assert make.hexagon().attrs["llvm-options"] == ("-force-hvx-float",)
    with pytest.raises(TargetError, match="no RISC-V CPU"):
        make.riscv_cpu("x")


def test_a_target_of_a_device() -> None:
    assert Target.from_device(cpu(0)) == Target.from_device("cpu") == Target.host()
    with pytest.raises(TargetError, match="is no device"):
        Target.from_device(3)
    if not cuda(0).exist:
        with pytest.raises(TargetError, match="is not there"):
            Target.from_device(cuda(0))

    class Elsewhere(Device):
        """A device like one behind a connection."""

    with pytest.raises(TargetError, match="another machine"):
        Target.from_device(Elsewhere("cpu", 0))


def test_canonical_forms() -> None:
    cuda_target, host = Target.canon_target_and_host("cuda", "llvm -num-cores=2")
    assert cuda_target is not None
    assert cuda_target.host == host == Target("llvm -num-cores=2")
    assert Target("cuda").with_host("llvm").host == Target("llvm")
    assert Target.canon_target(None) is None
    assert Target.canon_target_and_host(None) == (None, None)
    with pytest.raises(TargetError, match="needs a target"):
        Target.canon_target_and_host(None, "llvm")
    both = [Target("llvm"), Target("cuda")]
    assert Target.canon_multi_target(["llvm", "cuda"]) == Target.canon_multi_target({1: "llvm", 2: "cuda"}) == both
    assert Target.canon_multi_target_and_host("cuda", "llvm") == [Target("cuda", host="llvm")]
    with pytest.raises(TargetError, match="at least one"):
        Target.canon_multi_target_and_host([])
    assert Target.canon_target_map_and_host({"cuda": 1}, "llvm") == ({Target("cuda", host="llvm"): 1}, Target("llvm"))
    with Target("llvm -num-cores=7") as here:
        assert Target.target_or_current(None) is here
    assert Target.target_or_current("llvm") == Target("llvm")
    with pytest.raises(TargetError, match="no target is active"):
        Target.target_or_current(None)


# -------------------------------------------------------------------------- generic functions


def test_a_generic_function_looks_at_the_current_target() -> None:
    @generic_func
    def schedule(x: int) -> str:
        """Says who."""
        return f"default {x}"

    @schedule.register(["gpu", "cuda"])
    def _gpu(x: int) -> str:
        return f"gpu {x}"

    schedule.register("arm_cpu", lambda x: f"arm {x}")
    assert schedule(1) == "default 1"
    assert schedule.__doc__ == "Says who."
    with Target("cuda"):
        assert schedule(2) == "gpu 2"
    with Target(RASPBERRY):
        assert schedule(x=3) == "arm 3"
    with Target("llvm"):
        assert schedule(4) == schedule.fdefault(4)
    with pytest.raises(TargetError, match="already registered for 'gpu'"):
        schedule.register("gpu", _gpu)
    schedule.register("gpu", lambda x: "new", override=True)
    with Target("opencl"):
        assert schedule(5) == "new"


def test_native_generic_functions_are_shared_by_name() -> None:
    shared = get_native_generic_func("test_schedule_injective")
    shared.register(lambda: "cuda", ["cuda"], allow_override=True)
    with pytest.raises(TargetError, match="has no default, and nothing for no target"):
        GenericFunc("nothing")()

    @override_native_generic_func("test_schedule_injective")
    def schedule_injective() -> str:
        return "default"

    assert schedule_injective() == shared() == "default"
    with Target("cuda"):
        assert schedule_injective() == "cuda"
    with pytest.raises(TargetError, match="already has a default"):
        shared.set_default(schedule_injective)
