"""The NVIDIA GPUs of a box, and what a separate process finds out about one.

The server itself never opens a GPU. Executors and probes see one device each, by `CUDA_VISIBLE_DEVICES`.
"""

from __future__ import annotations

import re
import subprocess

import msgspec

from rpc_server.errors import ServerStartError
from rpc_server.machine.children import answer_of

VISIBLE = "CUDA_VISIBLE_DEVICES"
_LIST = ("nvidia-smi", "-L")
_LIST_S = 30.0
_PROBE_S = 60.0
_DEVICE = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[\w-]+)\)")
_INSTANCE = re.compile(r"^\s+MIG .*\(UUID: (MIG-[\w/-]+)\)")


class Gpu(msgspec.Struct, frozen=True):
    """The facts of a GPU.
    `arch` such as "sm_90"; `memory` in bytes, clocks in kHz, `driver` its CUDA version. The temperature (°C) is that of
    the moment; None where NVML does not tell it."""

    uuid: str
    name: str
    arch: str
    memory: int
    multiprocessors: int
    clock: int
    shared: int
    driver: str
    temperature: int | None = None


class ProbeSettings(msgspec.Struct, frozen=True):
    """`uuid`: the GPU; `user`: whom to become when started as root."""

    parent: int
    uuid: str
    user: str = ""


class Probed(msgspec.Struct, frozen=True):
    """The GPU, its GFLOP/s and GB/s; or what is `wrong` with it."""

    gpu: Gpu | None = None
    compute: float = 0.0
    memory: float = 0.0
    wrong: str = ""


def visible(uuid: str) -> dict[str, str]:
    """The variables that let a process see one GPU only."""
    return {VISIBLE: uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def listed(text: str) -> tuple[str, ...]:
    """The UUIDs in what `nvidia-smi -L` prints: of each MIG instance, and of each GPU that has none."""
    found: list[str] = []
    parted = False  # the last GPU in the list has instances
    for line in text.splitlines():
        if match := _DEVICE.match(line):
            found.append(match[1])
            parted = False
        elif match := _INSTANCE.match(line):
            if not parted:
                found.pop()
            parted = True
            found.append(match[1])
    return tuple(found)


def gpus_here() -> tuple[str, ...]:
    """The UUIDs of this machine's GPUs and MIG instances; empty where `nvidia-smi` is not or fails."""
    try:
        done = subprocess.run(_LIST, capture_output=True, text=True, timeout=_LIST_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return listed(done.stdout) if done.returncode == 0 else ()


def chosen(wanted: str) -> str:
    """The UUID of the GPU that `wanted` names: a UUID, or a number in the order of `nvidia-smi -L`.
    Where that does not run, it is left to the driver to understand. Raises ServerStartError for one that is not
    there."""
    known = gpus_here()
    if not known:
        return wanted
    if wanted.isdecimal() and int(wanted) < len(known):
        return known[int(wanted)]
    matching = [uuid for uuid in known if uuid.startswith(wanted)]
    if len(matching) != 1 or wanted.isdecimal():
        raise ServerStartError(f"there is no GPU {wanted!r} here", hint=f"there are: {', '.join(known)}")
    return matching[0]


def probe(settings: ProbeSettings, timeout_s: float = _PROBE_S) -> Probed:
    """Ask a process of its own what a GPU is and whether it computes rightly. Never raises."""
    found = answer_of("rpc_server.machine.gpu_probe", settings, Probed, timeout_s, **visible(settings.uuid))
    return Probed(wrong=f"the probe of GPU {settings.uuid} {found}") if isinstance(found, str) else found
