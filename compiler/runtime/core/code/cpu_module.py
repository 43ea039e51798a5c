"""Modules of object code for this machine's CPU, and the runtime's part of the CPU backend."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from compiler.artifact import CONSTANT, CONSTANTS, PYTHON, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.core.backends import DeviceBackend
from compiler.runtime.core.code.artifact_module import ArtifactModule
from compiler.runtime.core.code.cpu_function import Code, CPUFunction
from compiler.runtime.core.code.numpy_module import NumpyModule
from compiler.runtime.core.code.special_modules import system_lib
from compiler.runtime.core.device import Device, DeviceAPI
from compiler.runtime.core.host import HostAPI
from compiler.runtime.core.loader import LoadedObject, NotLoaded, load_object
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.threads import set_num_threads
from compiler.runtime.files.described_object import described_object
from compiler.runtime.files.export import bitcode, static_objects
from compiler.runtime.files.header import header
from compiler.target.cpu_features import architecture, host_cpu, told_features
from compiler.target.target import Target


class CPUModule(ArtifactModule[CPUFunction]):
    """An artifact's object code, loaded into this process."""

    type_key = "llvm"
    format = "o"
    device_type = "cpu"
    runs_on = "the CPU"

    def __init__(self, artifact: Artifact, code: Code) -> None:
        super().__init__(artifact)
        self._code = code
        self._constants: list[NDArray] = []
        if artifact.constants and isinstance(code, LoadedObject):
            self.use_constants(_own_constants(artifact))
        if "-system-lib" in artifact.target and Target(artifact.target).get("system-lib"):
            system_lib().register(self)

    def _make(self, name: str) -> CPUFunction:
        return CPUFunction(self.artifact.entry(name), self._code)

    def use_constants(self, arrays: Mapping[int, NDArray]) -> None:
        """Tell functions made of graphs where the model's constants are, by number. Keeps the arrays alive."""
        size = self.artifact.constants
        if size:
            table = (ctypes.c_void_p * size).from_address(self._code.address(CONSTANTS))
            used = {number: held for number, held in arrays.items() if 0 <= number < size}
            for number, held in used.items():
                table[number] = held.data_ptr
            self._constants = list(used.values())

    def import_module(self, module: Module) -> None:
        """Import a module. A static library may define functions that this one's code waits for."""
        super().import_module(module)
        if isinstance(self._code, NotLoaded):
            try:
                self._code = load_code(self.artifact, static_objects(self))
            except ArtifactError as error:  # told to whoever calls a function
                self._code = NotLoaded(error)

    @property
    def is_runnable(self) -> bool:
        return not isinstance(self._code, NotLoaded)

    @property
    def is_dso_exportable(self) -> bool:
        return "object" in self.artifact.blobs

    @property
    def is_binary_serializable(self) -> bool:
        return True

    is_binary = is_binary_serializable

    def get_source(self, fmt: str = "") -> str:
        """The text kept when the module was built: "ll" (the default), "asm", "tir"; or a C header, "h".

        Raises ArtifactError naming what is there when that text was not kept.
        """
        if fmt.lower() == "h":
            return header(self.artifact)
        name = _SOURCE_FORMATS.get(fmt.lower())
        blob = self.artifact.blobs.get(name) if name else None
        if blob is None:
            kept = [source for source in ("ll", "asm", "tir") if source in self.artifact.blobs]
            raise ArtifactError(
                f"the module has no source in format {fmt or 'll'!r}", hint=f"it has: {', '.join(kept) or 'none'}"
            )
        return blob.decode("utf-8")

    def get_ir(self) -> str:
        """The LLVM IR, before optimisation. Raises ArtifactError when it was not kept."""
        return self.get_source("ll")

    def set_num_threads(self, count: int) -> None:
        """How many threads parallel loops use, in this whole process."""
        set_num_threads(count)

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the module to a file, by `fmt` or the file's suffix.

        "tunefarm" (also without a suffix): the artifact, which `load_module` reads. "o": the object file.
        "ll", "bc", "s" or "asm", "tir": source; "h": a C header. Raises ArtifactError for other formats.
        """
        path = Path(file_name)
        wanted = (fmt or path.suffix.removeprefix(".") or "tunefarm").lower()
        if wanted == "tunefarm":
            data = self.artifact.to_bytes()
        elif wanted == "o":
            data = described_object(self.artifact)
        elif wanted == "bc":
            data = bitcode(self)
        elif wanted == "h" or wanted in _SOURCE_FORMATS:
            data = self.get_source(wanted).encode("utf-8")
        else:
            raise ArtifactError(
                f"a module cannot be saved as {wanted!r}",
                hint="formats: tunefarm, o, ll, bc, s, asm, tir, h; `export_library` makes shared libraries",
            )
        path.write_bytes(data)


class LibraryModule(CPUModule):
    """The functions of a shared library."""

    type_key = "library"


def _own_constants(artifact: Artifact) -> dict[int, NDArray]:
    """The constants that an artifact brings along itself, as arrays of bytes."""
    return {
        int(name.removeprefix(CONSTANT)): array(np.frombuffer(blob, np.uint8))
        for name, blob in artifact.blobs.items()
        if name.removeprefix(CONSTANT).isdecimal() and name.startswith(CONSTANT)
    }


_SOURCE_FORMATS = {"": "ll", "ll": "ll", "llvm": "ll", "asm": "asm", "s": "asm", "tir": "tir"}


def check_runnable(artifact: Artifact) -> None:
    """Raise ArtifactError, saying what is missing, unless this machine's CPU can run the artifact."""
    target = Target(artifact.target)
    if not target.is_cpu:
        raise ArtifactError(f"the artifact is for {target.kind}, not for a CPU: {target}")
    here, wanted = architecture(None), architecture(target.triple)
    if wanted != here:
        raise ArtifactError(f"the artifact is for {wanted}; this machine is {here}")
    asked = set(artifact.cpu_features) - told_features()
    if not asked:
        return
    cpu = host_cpu()
    missing = sorted(asked - cpu.features)
    if missing:
        raise ArtifactError(
            f"the artifact needs CPU features this machine lacks: {', '.join(missing)} (this CPU: {cpu.name})",
            hint="build it for this machine's target, or run it on a device that has them",
            detail={"missing": missing, "cpu": cpu.name},
        )


def load_code(artifact: Artifact, libraries: Sequence[bytes] = ()) -> LoadedObject:
    """Link an artifact's object code, with more objects, into this process. Raises ArtifactError like
    `load_artifact`."""
    check_runnable(artifact)
    code = artifact.blobs.get("object")
    if code is None:
        raise ArtifactError("the artifact holds no object code")
    native.offer(artifact.blobs)
    required = [name for e in artifact.entries for name in (e.symbol, f"{e.symbol}_packed")]
    return load_object(code, required, (*artifact.linked, *libraries))


class CPUDeviceBackend(DeviceBackend):
    """This machine's CPU: object code, linked into this process."""

    def open_api(self) -> DeviceAPI:
        return HostAPI()

    def load(self, artifact: Artifact) -> Module:
        if PYTHON in artifact.blobs and "object" not in artifact.blobs:
            return NumpyModule(artifact)
        return CPUModule(artifact, load_code(artifact))

    def target_of(self, device: Device) -> Target:
        return Target.host()


CPU = CPUDeviceBackend()
