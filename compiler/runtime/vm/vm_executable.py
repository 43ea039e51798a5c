"""The result of a graph's build: an executable, to be run by a `VirtualMachine`, saved or exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.artifact import CONSTANT, Artifact
from compiler.errors import ArtifactError, DeviceError
from compiler.runtime.core import native
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.files.export import bundle
from compiler.runtime.files.header import header
from compiler.runtime.files.model_library import export_model
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions
from compiler.runtime.vm import executable, model_file
from compiler.runtime.vm.executable import Program
from compiler.target.cpu_features import architecture
from compiler.target.target import Target


def _with_native(code: Artifact) -> Artifact:
    """Kernels with the runtime's native functions along, compiled for their machine."""
    target = Target(code.target)
    arch = architecture(target.triple)
    if not target.is_cpu or arch not in native.ARCHITECTURES or native.blob_name(arch) in code.blobs:
        return code
    blobs = {**code.blobs, native.blob_name(arch): native.compiled(target.triple)}
    return Artifact(code.target, code.cpu_features, code.entries, blobs, code.meta)


class VMModule(Module):
    """An executable as a module, so that it is saved, exported and loaded as other modules are.

    Its functions run on this machine's first CPU, or on what the kernels are for; `VirtualMachine` chooses devices.
    """

    type_key = "relax.VMExecutable"
    format = "tunefarm"

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def __repr__(self) -> str:
        return f"<VMModule {', '.join(self.program.names)}>"

    @property
    def meta(self) -> Mapping[str, str]:
        """The origin that is noted in its file."""
        return self.program.meta

    def note(self, facts: Mapping[str, str]) -> None:
        """Note in its file where it came from."""
        self.program = replace(self.program, meta={**self.program.meta, **facts})

    def get_function_list(self) -> list[str]:
        return self.program.names

    def _find(self, name: str) -> PackedFunc | None:
        return None if name in self.program.names else self._offered(name)

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        raise DeviceError(
            "an executable is timed by the machine that runs it",
            hint="relax.VirtualMachine(executable, device).time_evaluator(…)",
        )

    @property
    def is_runnable(self) -> bool:
        return False

    @property
    def is_binary_serializable(self) -> bool:
        return True

    is_binary = is_binary_serializable

    def get_source(self, fmt: str = "") -> str:
        """The instructions as text.
        "python" gives them as calls of `ExecBuilder`, "h" a C header of the functions that are machine code. Raises
        ArtifactError for others."""
        match fmt.lower():
            case "h":
                return header(self._machine_code())
            case "" | "text" | "vm":
                return executable.as_text(self.program)
            case "python" | "py":
                return executable.as_python(self.program)
        raise ArtifactError(f"an executable has no source in format {fmt!r}", hint="formats: text, python, h")

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the executable to a file that `load_module` reads, or its C header (".h").

        Imported modules, such as code generators make, go with it. Raises ArtifactError for one that has no code of
        tunefarm's to write.
        """
        path = Path(file_name)
        if (fmt or path.suffix.removeprefix(".")).lower() == "h":
            path.write_text(self.get_source("h"), "utf-8")
            return
        if (fmt or path.suffix.removeprefix(".") or "tunefarm").lower() not in ("tunefarm", "ro", "vm"):
            raise ArtifactError(f"an executable cannot be saved as {fmt or path.suffix!r}", hint='use ".tunefarm"')
        model_file.write(self._whole(), path)

    def _whole(self) -> Program:
        """The program with its imported modules, and with the native code that runs it without LLVM.

        Raises ArtifactError for a module that cannot be written.
        """
        kernels = {device: _with_native(code) for device, code in self.program.kernels.items()}
        modules = tuple([bundle(module) for module in self.imported_modules])
        return replace(self.program, kernels=kernels, modules=modules)

    def export_library(
        self, file_name: str, fcompile: Callable[..., Any] | None = None, addons: Sequence[str] | None = None,
        workspace_dir: str | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Write the executable to a file that `load_module` reads: instructions, kernels and constants.

        A shared library (".so") also runs in programs without Python: functions that are machine code can be called
        from C, with the header that `save("model.h")` writes. Raises LinkError when linking fails, ArtifactError for
        an executable whose kernels are not a CPU's.
        """
        path = Path(file_name)
        if fcompile is None and path.suffix in ("", ".tunefarm"):
            self.save(file_name)
            return None
        if path.suffix == ".tar":
            raise ArtifactError("an executable cannot be written as a tar file", hint='use ".tunefarm" or ".so"')
        made = model_file.layout(self._whole())
        return export_model(
            path, self._cpu_code(), made.chunks, made.size, made.arrays, fcompile, addons or (), workspace_dir, **kwargs
        )

    def _cpu_code(self) -> Artifact:
        code = self.program.kernels.get("cpu")
        if code is None or len(self.program.kernels) > 1:
            raise ArtifactError(
                "only an executable whose kernels are all for a CPU can be a shared library", hint='use ".tunefarm"'
            )
        return code

    def _machine_code(self) -> Artifact:
        """The code, with the entries only that are made of graphs. Raises ArtifactError where there are none."""
        code = self._cpu_code()
        entries = tuple(entry for entry in code.entries if entry.is_graph)
        if not entries:
            raise ArtifactError(
                "no function of the executable is machine code", hint='relax.build(…, exec_mode="compiled")'
            )
        return Artifact(code.target, code.cpu_features, entries, {}, code.meta)


class VMExecutable:
    """An executable: what `relax.build`, `tvm.compile` and `ExecBuilder` give.

    Made of a module that holds one (such as `load_module` gives), another executable, or a `Program`.
    """

    def __init__(self, mod: Module | Program | VMExecutable) -> None:
        if isinstance(mod, VMExecutable):
            self.mod: VMModule = mod.mod
        elif isinstance(mod, Program):
            self.mod = VMModule(mod)
        elif isinstance(mod, VMModule):
            self.mod = mod
        else:
            raise ArtifactError(
                f"this {type(mod).__name__} holds no executable",
                hint="`relax.build` makes one; `load_module` reads one that was exported",
            )

    @property
    def program(self) -> Program:
        """The content of the executable."""
        return self.mod.program

    def __repr__(self) -> str:
        return f"<VMExecutable {', '.join(self.program.names)}>"

    @property
    def interpreted(self) -> tuple[str, ...]:
        """List each call that keeps a function from being machine code: "main: the packed function f"."""
        return self.program.interpreted

    def measurable(self, func_name: str = "main") -> Artifact:
        """Return a function that is machine code as an artifact of its own, with the constants in it.

        A trial measures it as it measures a kernel: `RPCSession.measure(request, [artifact])`. Raises ArtifactError for
        any other function.
        """
        function = self.program.function(func_name)
        if function is None or function.native is None:
            raise ArtifactError(
                f"{func_name!r} is no function of machine code", hint='relax.build(…, exec_mode="compiled")'
            )
        code = self.program.kernels["cpu"]
        if code.entry(function.native.entry).made:
            raise ArtifactError(f"{func_name!r} gives results whose shapes its arguments do not tell: no trial fits it")
        blobs = dict(code.blobs)
        for number, held in enumerate(self.program.constants[: code.constants]):
            if isinstance(held, NDArray):
                blobs[f"{CONSTANT}{number}"] = bytes(held.as_bytes())
        return Artifact(code.target, code.cpu_features, (code.entry(function.native.entry),), blobs, code.meta)

    def stats(self) -> str:
        """How many functions, instructions, constants and kernels there are."""
        return executable.stats(self.program)

    def as_text(self) -> str:
        """The instructions as a listing."""
        return executable.as_text(self.program)

    def as_python(self) -> str:
        """The instructions as Python that writes them again."""
        return executable.as_python(self.program)

    def jit(
        self, fcompile: Callable[..., Any] | None = None, addons: Sequence[str] | None = None, **kwargs: Any
    ) -> VMModule:
        """The executable as a module that a machine runs.
        Nothing is left to compile: kernels are there as code."""
        return self.mod

    def export_library(
        self,
        file_name: str,
        fcompile: Callable[..., Any] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write the executable to a file that `load_module` reads."""
        return self.mod.export_library(file_name, fcompile, workspace_dir=workspace_dir, **kwargs)

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the executable to a file that `load_module` reads."""
        self.mod.save(file_name, fmt)

    def __getitem__(self, name: str) -> PackedFunc:
        return self.mod[name]
