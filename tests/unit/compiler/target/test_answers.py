"""Targets answer for options that nobody gave as Apache TVM does."""

from __future__ import annotations

import pytest

from compiler.errors import TargetError
from compiler.target.cpu_features import host_cpu
from compiler.target.target import Target


def test_plain_llvm_answers_with_the_triple_of_this_machine() -> None:
    target = Target("llvm")
    assert target.mtriple == target.attrs["mtriple"] == host_cpu().triple
    assert target.triple is None
    assert str(target) == "llvm"
    assert "mtriple" not in Target("llvm -mcpu=znver3").attrs


def test_names_that_were_not_given_are_texts() -> None:
    assert (Target("llvm").mcpu, Target("llvm").arch, Target("cuda").mcpu) == ("", "", "")
    assert (Target("nvptx -mcpu=sm_75").arch, Target("rocm -mcpu=gfx90a").arch) == ("", "")
    assert (Target("nvptx").mcpu, Target("rocm").mcpu) == ("sm_50", "gfx900")
    assert Target("llvm -mcpu=znver3").arch == ""


def test_cuda_has_the_least_architecture_and_leaves_the_device_open() -> None:
    target = Target("cuda")
    assert target.arch == target.attrs["arch"] == "sm_50"
    assert target.gpu_arch is None
    assert target.is_open
    assert (Target("cuda -arch=sm_80").arch, Target("cuda -arch=sm_80").gpu_arch) == ("sm_80", "sm_80")


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "cuda",
        "llvm -mtriple=aarch64-linux-gnu",
        "llvm -device=arm_cpu",
        "opencl -device=mali",
        "llvm -keys=mine,cpu",
        "raspberry-pi/4b-aarch64",
        "apple/m1-gpu",
        "cuda -arch=sm_80 -host=llvm",
    ],
)
def test_an_export_says_keys_and_tag_and_makes_an_equal_target(text: str) -> None:
    target = Target(text)
    data = target.export()
    assert (data["kind"], data["tag"], tuple(data["keys"])) == (target.kind, target.tag, target.keys)
    assert Target(data) == target
    assert str(Target(data)) == str(target)


def test_a_gpu_of_apple_has_its_limits_and_its_host() -> None:
    gpu = Target("apple/m1-gpu")
    assert (gpu.kind, gpu.keys, gpu.thread_warp_size, gpu.max_num_threads) == ("metal", ("metal", "gpu"), 32, 256)
    assert (gpu.attrs["max_threads_per_block"], gpu.max_shared_memory_per_block, gpu.max_function_args) == (
        1024,
        32768,
        31,
    )
    assert gpu.host is not None
    assert gpu.host.mcpu == "apple-m1"
    assert gpu.host.keys == ("arm_cpu", "cpu")
    assert Target("apple/m1-gpu-restricted").attrs["max_threads_per_block"] == 256


def test_a_browser_has_the_limits_of_its_standard() -> None:
    attrs = Target("webgpu").attrs
    assert (attrs["thread_warp_size"], attrs["max_shared_memory_per_block"], attrs["max_num_threads"]) == (
        1,
        32768,
        256,
    )


@pytest.mark.parametrize(
    ("tag", "options"),
    [
        ("qcom/hexagon-v68", {"mcpu": "hexagonv68", "vtcm-capacity": 4194304, "num-cores": 4}),
        ("qcom/adreno-opencl-texture", {"device": "adreno", "texture_spatial_limit": 16384}),
        ("arm/stm32mp1", {"mcpu": "cortex-a7", "model": "stm32mp1", "mtriple": "armv7a-linux-gnueabihf"}),
        ("riscv/sifive-e31", {"mabi": "ilp32", "mtriple": "riscv32-unknown-linux-gnu"}),
        ("nvidia/jetson-agx-thor", {"arch": "sm_110a", "max_shared_memory_per_block": 232448}),
    ],
)
def test_tags_of_tvm(tag: str, options: dict[str, object]) -> None:
    attrs = Target(tag).attrs
    assert {name: attrs[name] for name in options} == options


def test_kinds_answer_with_their_keys_and_device() -> None:
    kind = Target("cuda -keys=mine").kind
    assert (kind.default_keys, kind.default_device_type) == (["cuda", "gpu"], 2)
    assert Target("llvm").get_kind_attr("is_external_codegen") is False
    assert Target("llvm").get_kind_attr("nothing_of_the_kind") is None
    assert (Target("metal").max_function_args, Target("llvm").max_function_args) == (31, 0)


def test_questions_about_features_that_nobody_knows() -> None:
    features = Target("llvm -mtriple=aarch64-linux-gnu").features
    assert features.has_asimd
    assert not features.has_what_no_one_has
    with pytest.raises(AttributeError):
        features.no_question


def test_an_option_is_given_once() -> None:
    with pytest.raises(TargetError, match="'mcpu' twice"):
        Target("llvm -mcpu=znver3 --mcpu=znver4")
