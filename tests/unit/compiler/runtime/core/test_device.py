"""Devices: names, codes, equality, properties, and what happens when one is absent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from compiler.errors import DeviceError
from compiler.runtime.core import device as devices
from compiler.runtime.core.device import Device, DeviceAPI, DeviceNameError, cpu, cuda, device, enabled
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, artifact

PROPERTIES = [
    "max_threads_per_block", "warp_size", "max_shared_memory_per_block", "compute_version", "device_name",
    "max_clock_rate", "multi_processor_count", "max_thread_dimensions", "api_version", "driver_version",
]  # fmt: skip


def test_names_aliases_and_codes() -> None:
    assert device("cpu", 1) == cpu(1) == Device("cpu", 1)
    assert device("cuda") == cuda(0) == devices.gpu() == device("gpu") == device("nvptx") == device(2)
    assert device("llvm") == device("llvm -mcpu=znver3") == device(1) == cpu()
    assert devices.cl(1) == devices.opencl(1)
    assert devices.mtl() == devices.metal() == device(8)
    assert [d().type_code for d in (cpu, cuda, devices.opencl, devices.vulkan, devices.metal, devices.vpi)] == [
        1, 2, 4, 7, 8, 9,
    ]  # fmt: skip
    assert [d().type_code for d in (devices.rocm, devices.ext_dev)] == [10, 12]
    assert str(cpu(3)) == "cpu(3)"
    assert cpu(0) != cpu(1)
    assert len({cpu(0), device("cpu", 0), cuda(0)}) == 2


@pytest.mark.parametrize("name", ["cpux", "", 99, "toaster -x"])
def test_unknown_type_is_a_value_error(name: str | int) -> None:
    with pytest.raises(ValueError, match="unknown device type") as caught:
        device(name)
    assert isinstance(caught.value, DeviceNameError)


@pytest.mark.parametrize("index", [-1, 1.5, "0", True])
def test_impossible_index(index: Any) -> None:
    with pytest.raises(DeviceNameError, match="index"):
        cpu(index)


def test_properties_are_none_on_cpu_and_on_an_absent_device() -> None:
    for place in (cpu(), devices.vpi()):
        assert all(getattr(place, name) is None for name in PROPERTIES)
        assert place.texture_spatial_limit() is None
    assert cpu().exist
    cpu().sync()
    stream = cpu().create_raw_stream()
    cpu().set_raw_stream(stream)
    cpu().free_raw_stream(stream)


KINDS = [
    devices.cuda, devices.gpu, devices.rocm, devices.opencl, devices.cl, devices.vulkan, devices.metal, devices.mtl,
    devices.vpi, devices.ext_dev, devices.hexagon, devices.webgpu,
]  # fmt: skip


@pytest.mark.parametrize("kind", [devices.cpu, *KINDS])
def test_constructing_never_fails(kind: Callable[[int], Device]) -> None:
    assert [kind(index).device_id for index in (0, 7, 10_000)] == [0, 7, 10_000]
    assert kind(3) == device(kind(3).device_type, 3)
    assert isinstance(kind(10_000).exist, bool)


@pytest.mark.parametrize("kind", KINDS)
def test_using_an_absent_device_says_why(kind: Callable[[int], Device]) -> None:
    place = kind(9_999)  # nobody has so many
    assert not place.exist
    known = {"warp_size": 1} if place.device_type in ("opencl", "metal") else {}
    assert {name: getattr(place, name) for name in PROPERTIES} == dict.fromkeys(PROPERTIES) | known
    assert place.texture_spatial_limit() is None
    uses: list[Callable[[], object]] = [
        place.sync,
        place.create_raw_stream,
        lambda: place.set_raw_stream(None),
        lambda: place.free_raw_stream(None),
        lambda: empty((4,), "float32", place),
        lambda: array([1.0], place),
        lambda: empty((4,)).copyto(place),
    ]
    for use in uses:
        with pytest.raises(DeviceError, match=rf"^{place.device_type}\(9999\) cannot be used: \w+"):
            use()


def test_timing_on_an_absent_device_says_what_to_pass() -> None:
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    with pytest.raises(DeviceError, match=r"cannot be timed on vpi\(0\)[\s\S]*pass cpu\(0\)"):
        module.time_evaluator("add", devices.vpi())


@pytest.mark.parametrize("name", [*devices.TYPE_CODES, *devices._ALIASES])
def test_enabled_is_whether_the_first_device_exists(name: str) -> None:
    assert enabled(name) == device(name).exist
    if devices.canonical_type(name) == "cpu":
        assert enabled(name)


def test_enabled() -> None:
    assert enabled("llvm -mcpu=znver3")
    assert enabled("rpc")
    assert not enabled("c")  # its code is not made
    for name in ("vpi", "ext_dev", "no-such-thing", ""):
        assert not enabled(name)


def test_a_subclass_brings_its_own_api() -> None:
    class Answer:
        def exist(self, place: Device) -> bool:
            return True

        def attribute(self, place: Device, name: str) -> Any:
            return f"{name} of {place}"

    @dataclasses.dataclass(frozen=True, repr=False)
    class FarDevice(Device):
        session: str = ""

        @property
        def api(self) -> DeviceAPI:
            return Answer()  # type: ignore[return-value]

    far = FarDevice("cuda", 0, "s1")
    for name in (*PROPERTIES, "l2_cache_size_bytes", "total_global_memory"):
        assert getattr(far, name) == f"{name} of cuda(0)"
    assert far.texture_spatial_limit() == "texture_spatial_limit of cuda(0)"
    assert far != cuda(0)
    assert far == FarDevice("cuda", 0, "s1")
    assert far != FarDevice("cuda", 0, "s2")


def test_types_of_devices_have_the_numbers_of_tvm() -> None:
    assert device(Device.kDLVulkan, 3) == device("vulkan", 3)
    assert cuda().type_code == Device.kDLCUDA
    assert [Device.MASK2STR[code] for code in (Device.kDLCPU, Device.kDLMicroDev)] == ["cpu", "microdev"]
    assert {name: code for code, name in Device.MASK2STR.items() if name in devices.TYPE_CODES} == (devices.TYPE_CODES)
