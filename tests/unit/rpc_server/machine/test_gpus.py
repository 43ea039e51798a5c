"""Which GPUs a box has, by what nvidia-smi lists."""

from __future__ import annotations

import pytest

from rpc_server.errors import ServerStartError
from rpc_server.machine import gpus

LIST = """\
GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa-bbbb-cccc-000000000001)
GPU 1: NVIDIA H200 (UUID: GPU-22222222-aaaa-bbbb-cccc-000000000002)
  MIG 3g.71gb     Device  0: (UUID: MIG-33333333-aaaa-bbbb-cccc-000000000003)
  MIG 1g.18gb     Device  1: (UUID: MIG-44444444-aaaa-bbbb-cccc-000000000004)
"""


def test_instances_stand_for_the_gpu_that_is_parted() -> None:
    assert [uuid[:12] for uuid in gpus.listed(LIST)] == ["GPU-11111111", "MIG-33333333", "MIG-44444444"]
    assert gpus.listed("No devices were found") == ()


def test_a_gpu_is_named_by_number_or_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "gpus_here", lambda: gpus.listed(LIST))
    assert gpus.chosen("1") == gpus.chosen("MIG-3333") == "MIG-33333333-aaaa-bbbb-cccc-000000000003"
    for wanted in ("3", "GPU-9", "MIG-"):
        with pytest.raises(ServerStartError, match=f"there is no GPU '{wanted}' here"):
            gpus.chosen(wanted)
    monkeypatch.setattr(gpus, "gpus_here", lambda: ())
    assert gpus.chosen("GPU-9") == "GPU-9"  # the driver will know
