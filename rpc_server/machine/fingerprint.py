"""The facts that a box's times depend on.

CPU, features, cores, memory, caches, kernel, clock governor.

Records are keyed by `device_class`: boxes of one class run the same code at comparable speed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from compiler.target.target import Target
from rpc_server.errors import ProtocolError
from rpc_server.machine.gpus import Gpu
from rpc_server.machine.number_spans import spans

_SYS_CPU = Path("/sys/devices/system/cpu/cpu0")


class CacheInfo(msgspec.Struct, frozen=True):
    """One cache as core 0 sees it. `size` and `line` in bytes; `shared_by`: cores that share it."""

    level: int
    kind: str
    size: int
    line: int
    shared_by: int


class Fingerprint(msgspec.Struct, frozen=True):
    """A machine: its CPU or GPU, cores, threads and memory.

    `cores`: physical ones of the machine; `usable_cores` and `threads`: physical and logical ones that this process may
    use (`usable_cores` is 0 from a box that does not say). `memory` in bytes. `target` is the canonical text of the
    host target, `features` the CPU features generated code may use, in order, and `features_digest` the first 12 hex
    digits of their sha256. `governor` is "" where it cannot be read.

    Of a box that lends a GPU, `gpu` is its name, and `target` and the class are the GPU's.
    """

    hostname: str
    cpu_model: str
    cpu_name: str
    target: str
    features: tuple[str, ...]
    features_digest: str
    cores: int
    threads: int
    memory: int
    caches: tuple[CacheInfo, ...]
    kernel: str
    governor: str
    virtual: bool
    gpu: str = ""
    gpu_uuid: str = ""
    gpu_arch: str = ""
    gpu_memory: int = 0
    multiprocessors: int = 0
    driver: str = ""
    usable_cores: int = 0

    @property
    def device_class(self) -> str:
        """Return the device key of records.
        It has a CPU's model, LLVM's name for it, threads, and a digest of its features; a GPU's model, architecture,
        multiprocessors, and memory in GiB."""
        if self.gpu:
            memory = round(self.gpu_memory / 2**30)
            return f"{_slug(self.gpu)}/{self.gpu_arch}/{self.multiprocessors}sm/{memory}g"
        return f"{_slug(self.cpu_model) or 'cpu'}/{self.cpu_name}/{self.threads}t/{self.features_digest}"

    def with_gpu(self, gpu: Gpu) -> Fingerprint:
        """The fingerprint of a box that lends `gpu` and not its CPU."""
        return msgspec.structs.replace(
            self, target=str(Target({"kind": "cuda", "arch": gpu.arch})), gpu=gpu.name, gpu_uuid=gpu.uuid,
            gpu_arch=gpu.arch, gpu_memory=gpu.memory, multiprocessors=gpu.multiprocessors, driver=gpu.driver,
        )  # fmt: skip

    def to_builtins(self) -> dict[str, Any]:
        """JSON-like values, `device_class` included."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return {**data, "device_class": self.device_class}

    @staticmethod
    def from_builtins(data: dict[str, Any]) -> Fingerprint:
        """Inverse of `to_builtins`. Raises ProtocolError for other data: it comes from a box."""
        try:
            return msgspec.convert(data, Fingerprint)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"the box does not say what it is: {error}") from None


def local_fingerprint() -> Fingerprint:
    """Describe this machine. Takes about 0.1 s the first time (LLVM is asked what the CPU can do)."""
    target = Target.host()
    features = tuple(sorted(target.features))
    usable = os.sched_getaffinity(0)
    threads = len(usable)
    return Fingerprint(
        hostname=socket.gethostname(), cpu_model=_cpu_model(), cpu_name=target.mcpu or "unknown", target=str(target),
        features=features, features_digest=hashlib.sha256(",".join(features).encode()).hexdigest()[:12],
        cores=_physical_cores() or threads, threads=threads,
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), caches=_caches(), kernel=platform.release(),
        governor=_read(_SYS_CPU / "cpufreq/scaling_governor"), virtual="hypervisor" in _cpuinfo("flags").split(),
        usable_cores=_cores_of(usable) or threads,
    )  # fmt: skip


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cpuinfo(field: str) -> str:
    match = re.search(rf"^{field}\s*:\s*(.*)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    return match[1].strip() if match else ""


def _cpu_model() -> str:
    model = _cpuinfo("model name") or _cpuinfo("Model") or platform.processor() or platform.machine()
    return re.sub(r"\s+", " ", model)


def _physical_cores() -> int:
    """Hyper-threads of one core list the same siblings."""
    return len({_read(path) for path in _SYS_CPU.parent.glob("cpu[0-9]*/topology/thread_siblings_list")})


def _cores_of(threads: Iterable[int]) -> int:
    """The number of cores that these hyper-threads belong to; 0 where the system does not say."""
    siblings = {_read(_SYS_CPU.parent / f"cpu{number}/topology/thread_siblings_list") for number in threads}
    return len(siblings - {""})


def _caches() -> tuple[CacheInfo, ...]:
    found = []
    for index in sorted(_SYS_CPU.glob("cache/index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size"))
        level = _read(index / "level")
        if not size or not level.isdigit():
            continue
        scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[2]]
        found.append(
            CacheInfo(
                level=int(level),
                kind=_read(index / "type").lower(),
                size=int(size[1]) * scale,
                line=int(_read(index / "coherency_line_size") or 0),
                shared_by=_count_cpus(_read(index / "shared_cpu_list")),
            )
        )
    return tuple(found)


def _count_cpus(text: str) -> int:
    """How many CPUs a list such as "0-3,8" names."""
    return sum(last - first + 1 for first, last in spans(text) or ())
