"""Targets: parsing, canonical text, CPU features, and what gets filled in from this machine."""

from __future__ import annotations

import pickle
import threading

import llvmlite.binding as binding
import pytest

from compiler.errors import TargetError
from compiler.target.constructors import cuda, llvm
from compiler.target.cpu_features import HostCPU, enabled_features, host_cpu, known_cpus
from compiler.target.target import Target, list_kinds

SPECS = [
    "llvm",
    "llvm -mcpu=znver3",
    "llvm -mcpu=znver3 -mattr=+avx2,+fma -mtriple=x86_64-unknown-linux-gnu -num-cores=4",
    "llvm -mattr=+avx2,-fma,+f16c",
    "llvm -keys=arm_cpu,cpu -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon",
    "llvm -system-lib -fast-math=1 -opt-level=2",
    "cuda -arch=sm_80 -max_threads_per_block=1024",
    "c",
    "stackvm",
    "opencl -libs=cblas",
]


@pytest.mark.parametrize("spec", SPECS)
def test_text_and_data_round_trip(spec: str) -> None:
    target = Target(spec)
    for again in (Target(str(target)), Target(target.export()), Target(target), pickle.loads(pickle.dumps(target))):
        assert again == target
        assert hash(again) == hash(target)
        assert str(again) == str(target)


def test_host_target_round_trips() -> None:
    target = Target("cuda -arch=sm_90", host="llvm -mcpu=znver3 -mattr=+avx2,-fma")
    assert target.host == Target("llvm -mcpu=znver3 -mattr=+avx2,-fma")
    assert Target(str(target)) == target
    assert Target(target.export()) == target
    assert Target({"kind": "cuda", "arch": "sm_90", "host": {"kind": "llvm"}}).host == Target("llvm")
    assert Target(target, host="c").host == Target("c")


def test_order_of_options_and_additive_features_does_not_matter() -> None:
    a = Target("llvm -mattr=+fma,+avx2 -mcpu=znver3")
    b = Target("llvm -mcpu=znver3 -mattr=+avx2,+fma")
    assert a == b
    assert str(a) == str(b)


def test_json_text_and_space_separated_values() -> None:
    assert Target('{"kind": "llvm", "mcpu": "znver3", "num-cores": 4}') == Target("llvm -mcpu=znver3 -num-cores=4")
    assert Target("llvm -mcpu znver3 -num-cores 4") == Target("llvm -mcpu=znver3 -num-cores=4")


def test_properties() -> None:
    target = Target("llvm -mcpu=znver3 -mattr=+fma,+avx2 -num-cores=4 -libs=mkl,cblas")
    assert target.kind == "llvm"
    assert target.kind.name == "llvm"
    assert (target.mcpu, target.mattr, target.num_cores) == ("znver3", ("+avx2", "+fma"), 4)
    assert (target.keys, target.libs, target.device_type) == (("cpu",), ["mkl", "cblas"], "cpu")
    assert Target("cuda -arch=sm_80").arch == "sm_80"
    assert Target("cuda").keys == ("cuda", "gpu")
    assert Target("llvm -device=arm_cpu").keys == ("arm_cpu", "cpu")


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("", "empty"),
        ("lvm", "did you mean 'llvm'"),
        ({"mcpu": "znver3"}, "no kind"),
        ("llvm -mcppu=x", "no option 'mcppu'"),
        ("cuda -num-cores=3", "no option 'num-cores'"),
        ("llvm -num-cores=many", "integer"),
        ("llvm -num-cores=-1", "integer"),
        ("llvm -mattr=avx2", "turn the feature on"),
        ("llvm -mcpu", "not a name"),
        ("llvm znver3", "not an option"),
        ("llvm 'a", "quotation"),
        ('{"kind": "llvm"', "JSON"),
        ({"kind": "llvm", "mattr": [1]}, "list of names"),
        ({"kind": "llvm", "system-lib": "perhaps"}, "truth value"),
        (3, "not int"),
    ],
)
def test_bad_targets(spec: object, match: str) -> None:
    with pytest.raises(TargetError, match=match) as caught:
        Target(spec)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


def test_frozen() -> None:
    with pytest.raises(AttributeError):
        Target("llvm").kind = "cuda"  # type: ignore[assignment,misc]


def test_constructors() -> None:
    assert llvm("-mcpu=znver3", num_cores=4) == Target("llvm -mcpu=znver3 -num-cores=4")
    assert cuda(arch="sm_90", max_threads_per_block=512) == Target("cuda -arch=sm_90 -max_threads_per_block=512")
    assert "llvm" in list_kinds()


@pytest.mark.parametrize(
    ("spec", "bits", "registers"),
    [
        ("llvm -mtriple=x86_64-linux-gnu", 128, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3", 256, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", 512, 32),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -mattr=-avx512f", 256, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx512vl", 512, 32),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -vector-width=256", 256, 32),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", 128, 32),
        ("llvm -mtriple=armv7-linux-gnueabihf -mattr=+neon", 128, 16),
        ("llvm -mtriple=riscv64-linux-gnu", 32, 32),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+v", 128, 32),
    ],
)
def test_vector_unit(spec: str, bits: int, registers: int) -> None:
    target = Target(spec)
    assert (target.vector_bits, target.vector_registers) == (bits, registers)


def test_features_follow_implications_in_both_directions() -> None:
    on = enabled_features("x86_64", None, ("+avx512bf16",))
    assert {"avx512bw", "avx512f", "avx2", "fma", "sse4.2", "sse2"} <= on
    off = enabled_features("x86_64", "sapphirerapids", ("-avx512f",))
    assert not any(name.startswith("avx512") for name in off)
    assert {"avx2", "fma", "amx-int8"} <= off
    assert "avx2" not in enabled_features("x86_64", "znver3", ("-avx",))
    assert enabled_features("x86_64", "some-unknown-cpu", ()) == enabled_features("x86_64", None, ())


@pytest.mark.parametrize("cpu", sorted(known_cpus("x86_64")))
def test_a_machine_that_hides_a_feature_of_its_cpu_gets_no_code_for_it(cpu: str) -> None:
    implied = enabled_features("x86_64", cpu, ())
    for hidden in implied:
        features = enabled_features("x86_64", cpu, (f"-{hidden}",))
        target = HostCPU(cpu, "x86_64-linux-gnu", features).mattr
        assert enabled_features("x86_64", cpu, target) == features


def test_a_machine_without_any_amx_gets_no_code_for_its_tiles() -> None:
    features = frozenset(enabled_features("x86_64", "emeraldrapids", ("-amx-tile",)))
    assert "-amx-tile" in HostCPU("emeraldrapids", "x86_64-linux-gnu", features).mattr


PROBE = """
define void @wide(ptr %a, ptr %b) "prefer-vector-width"="512" "min-legal-vector-width"="512" {
  %x = load <16 x float>, ptr %a
  %y = load <16 x float>, ptr %b
  %z = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %y, <16 x float> %x)
  store <16 x float> %z, ptr %b
  ret void
}
define <4 x float> @half(<4 x half> %x) {
  %y = fpext <4 x half> %x to <4 x float>
  ret <4 x float> %y
}
define i64 @shift(i64 %x, i64 %n) {
  %y = shl i64 %x, %n
  ret i64 %y
}
define i64 @count(i64 %x) {
  %y = call i64 @llvm.ctlz.i64(i64 %x, i1 0)
  ret i64 %y
}
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare i64 @llvm.ctlz.i64(i64, i1)
"""
CPUS = ["x86-64", "nehalem", "haswell", "x86-64-v4", "skylake-avx512", "icelake-server", "sapphirerapids"]


@pytest.mark.parametrize("cpu", [*CPUS, "alderlake", "znver1", "znver3", "znver4", "znver5"])
def test_the_table_of_cpus_agrees_with_llvm(cpu: str) -> None:
    llvm_target = Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(llvm_target.mtriple).create_target_machine(cpu=cpu)
    asm = machine.emit_assembly(binding.parse_assembly(PROBE))
    assert llvm_target.vector_bits == (512 if "zmm" in asm else 256 if "ymm" in asm else 128)
    chosen = {"fma": "vfmadd", "f16c": "vcvtph2ps", "bmi2": "shlx", "lzcnt": "lzcntq"}
    for feature, instruction in chosen.items():
        assert (feature in llvm_target.features) == (instruction in asm), feature


def test_resolved_fills_in_this_machine() -> None:
    here = Target.host()
    cpu = host_cpu()
    assert here.kind == "llvm"
    assert (here.mcpu, here.mtriple) == (cpu.name, cpu.triple)
    assert here.features <= cpu.features
    assert Target("llvm").resolved() == here == here.resolved()
    assert Target("llvm -mcpu=native").resolved() == here
    assert Target("llvm -num-cores=3").resolved().num_cores == 3


def test_resolved_leaves_other_machines_alone() -> None:
    other = Target("llvm -mtriple=mips64-linux-gnu")
    assert other.resolved() is other
    named = Target("llvm -mcpu=x86-64-v4" if host_cpu().name != "x86-64-v4" else "llvm -mcpu=nehalem").resolved()
    assert named.mattr == ()
    assert named.mtriple == host_cpu().triple
    assert Target("cuda", host="llvm").resolved().host == Target.host()


def test_resolved_keeps_given_features_last() -> None:
    feature = sorted(Target.host().features)[0]
    resolved = Target(f"llvm -mattr=-{feature}").resolved()
    assert resolved.mcpu == host_cpu().name
    assert feature not in resolved.features


def test_hidden_features_are_subtracted() -> None:
    virtual = HostCPU("skylake-avx512", "x86_64-unknown-linux-gnu", enabled_features("x86_64", "haswell", ()))
    assert "-avx512f" in virtual.mattr
    assert enabled_features("x86_64", virtual.name, virtual.mattr) == virtual.features


def test_current_nests_and_belongs_to_its_thread() -> None:
    assert Target.current() is None
    with pytest.raises(TargetError, match="no target is active"):
        Target.current(allow_none=False)
    seen: list[Target | None] = []
    with Target("llvm") as outer, Target("cuda") as inner:
        assert Target.current() is inner
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
        with outer:
            assert Target.current() is outer
        assert Target.current() is inner
    assert Target.current() is None
    assert seen == [None]


def test_a_composite_target_has_targets() -> None:
    both = Target({"kind": "composite", "tag": "", "devices": ["llvm -mcpu=skylake", Target("cuda"), {"kind": "c"}]})
    assert [str(device.kind) for device in both.attrs["devices"]] == ["llvm", "cuda", "c"]
    assert both.attrs["devices"][0].mcpu == "skylake"
    assert Target(str(both)) == both
    with pytest.raises(TargetError):
        Target({"kind": "composite", "devices": ["no such kind"]})


def test_what_llvm_needs_of_other_gpus_has_defaults():
    assert (Target("rocm").attrs["mcpu"], Target("rocm").attrs["mtriple"]) == ("gfx900", "amdgcn-amd-amdhsa-hcc")
    assert (Target("nvptx").attrs["mcpu"], Target("nvptx -mcpu=sm_61").attrs["mcpu"]) == ("sm_50", "sm_61")
    with pytest.raises(AssertionError, match="needs a target"):
        Target.canon_target_and_host(None, "llvm")


def test_attributes_are_options_without_keys_and_tag() -> None:
    target = Target({"kind": "cuda", "tag": "", "arch": "sm_80", "keys": ["mine", "cuda"]})
    assert target.keys == ("mine", "cuda")
    assert set(target.attrs) == {"arch", "max_num_threads", "thread_warp_size"}
    assert Target("raspberry-pi/4b-aarch64").attrs["mcpu"] == "cortex-a72"
    assert "tag" not in Target("raspberry-pi/4b-aarch64").attrs
