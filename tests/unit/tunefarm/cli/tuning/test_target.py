"""Which target `tunefarm tune` builds for, of what was asked and what the devices are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tunefarm.cli.tuning.tune_run import target_for

XEON = "llvm -mattr=+amx-bf16,+avxvnni -mcpu=rocketlake -mtriple=x86_64-unknown-linux-gnu -num-cores=2"


@dataclass
class Devices:
    """A fleet as far as its target goes."""

    is_what: str
    asked: int = 0

    def target(self) -> str:
        self.asked += 1
        return self.is_what


@pytest.mark.parametrize(
    ("asked", "device", "wanted"),
    [
        ("", XEON, XEON),
        ("llvm", XEON, XEON),
        ("llvm -num-cores=1", XEON, XEON.replace("cores=2", "cores=1")),
        ("llvm -mattr=-amx-bf16", XEON, XEON.replace("+amx-bf16,+avxvnni", "+avxvnni,-amx-bf16")),
        ("llvm", "cuda -arch=sm_90", "llvm"),
        ("cuda", "cuda -arch=sm_90", "cuda -arch=sm_90"),
    ],
)
def test_what_is_left_open_is_the_devices(asked: str, device: str, wanted: str) -> None:
    assert target_for(asked, Devices(device)) == wanted


@pytest.mark.parametrize("asked", ["llvm -mcpu=x86-64-v3", "llvm -mtriple=aarch64-linux-gnu", "cuda -arch=sm_80"])
def test_a_cpu_that_is_named_is_built_for_whatever_the_devices_are(asked: str) -> None:
    devices = Devices(XEON)
    assert target_for(asked, devices) == asked
    assert devices.asked == 0
