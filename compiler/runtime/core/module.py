"""Modules: compiled code that can be called, timed and saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from compiler.artifact import Artifact
from compiler.errors import ArtifactError, DeviceError, TunefarmError
from compiler.runtime.core import native
from compiler.runtime.core.cpu_function import Code, CPUFunction
from compiler.runtime.core.device import Device, find_api
from compiler.runtime.core.loader import LoadedObject, NotLoaded, load_object
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.files.header import header
from compiler.runtime.measure.preprocess import preprocessor
from compiler.runtime.measure.timing import BenchmarkResult, EvaluatorOptions, measure
from compiler.target.cpu_features import architecture, host_cpu
from compiler.target.target import Target

ENTRY_NAME = "__tvm_main__"


class MissingFunctionError(TunefarmError, AttributeError):
    """A module has no function of that name."""

    kind = "missing_function"


class Module(ABC):
    """Compiled functions, and the modules they import.

    `module["name"]` gets a function; calling the module calls its entry function: its only one, else "main".
    """

    type_key: ClassVar[str] = "module"
    format: ClassVar[str] = ""
    is_part_of_importer: ClassVar[bool] = False  # what imports it holds its code, and writes it
    entry_name: str = ENTRY_NAME

    def __init__(self) -> None:
        self._imports: list[Module] = []

    # -- functions -------------------------------------------------------------------------------
    @abstractmethod
    def get_function_list(self) -> list[str]:
        """Names of the functions this module defines."""

    @abstractmethod
    def _find(self, name: str) -> PackedFunc | None:
        """The function of that name in this module itself."""

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """A function by name, or the entry function by `entry_name`.

        `query_imports` also looks into imported modules. Raises MissingFunctionError (an AttributeError).
        """
        own = self._entry_function_name() if name == self.entry_name else name
        if own is not None and (found := self._find(own)) is not None:
            return found
        if query_imports:
            for module in self._imports:
                if module.implements_function(name, query_imports=True):
                    return module.get_function(name, query_imports=True)
        names = ", ".join(self.get_function_list()) or "none"
        if name == self.entry_name:
            raise MissingFunctionError(
                "the module has no single entry function", hint=f"name one of its functions: {names}"
            )
        raise MissingFunctionError(f"the module has no function {name!r}", hint=f"its functions: {names}")

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether `get_function` would find it."""
        own = self._entry_function_name() if name == self.entry_name else name
        if own in self.get_function_list():
            return True
        return query_imports and any(m.implements_function(name, query_imports=True) for m in self._imports)

    @property
    def entry_func(self) -> PackedFunc:
        return self.get_function(self.entry_name)

    def __getitem__(self, name: str) -> PackedFunc:
        return self.get_function(name)

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    def _entry_function_name(self) -> str | None:
        names = self.get_function_list()
        return names[0] if len(names) == 1 else "main" if "main" in names else None

    # -- imports ---------------------------------------------------------------------------------
    @property
    def imported_modules(self) -> list[Module]:
        return list(self._imports)

    def import_module(self, module: Module) -> None:
        """Add a module whose functions `query_imports` finds. Raises ArtifactError on a circle."""
        if not isinstance(module, Module):
            raise ArtifactError(f"a module imports modules, not {type(module).__name__}")
        if module is self or self in module._closure():
            raise ArtifactError("a module cannot import itself, directly or through others")
        self._imports.append(module)

    def clear_imports(self) -> None:
        """Forget the imported modules."""
        self._imports.clear()

    def _closure(self) -> list[Module]:
        found: list[Module] = []
        for module in self._imports:
            found += [module, *module._closure()]
        return found

    # -- measuring -------------------------------------------------------------------------------
    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that takes `func_name`'s arguments and measures it: see `EvaluatorOptions`.

        The function is called 1 + number x repeat times (more if min_repeat_ms raises `number`); the first
        call is not counted. No Python runs inside a measured repeat.
        """
        options = EvaluatorOptions(
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            f_preproc,
        )
        return self._evaluator(func_name, dev, options)

    @abstractmethod
    def _evaluator(self, func_name: str, dev: Device, options: EvaluatorOptions) -> Callable[..., BenchmarkResult]:
        """Build what `time_evaluator` returns. Raises for a missing function or an unusable device."""

    # -- source and files ------------------------------------------------------------------------
    @abstractmethod
    def get_source(self, fmt: str = "") -> str:
        """The module's code as text in a format, the most natural one by default."""

    @abstractmethod
    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the module, without imported ones, to a file."""

    @property
    def is_dso_exportable(self) -> bool:
        """Whether its code can be linked into a shared library."""
        return False

    @property
    def is_binary_serializable(self) -> bool:
        """Whether it can be written into another module's library as bytes."""
        return False

    is_binary = is_binary_serializable

    @property
    def is_runnable(self) -> bool:
        """Whether its functions can be called here."""
        return True

    def export_library(
        self,
        file_name: str,
        fcompile: Callable[..., Any] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write this module and those it imports into one file that `load_module` reads.

        A shared library (linked with the C compiler or linker found) needs nothing of tunefarm: any program can use
        it, with the header from `save("name.h")`. A name ending in ".tar" or ".tunefarm" needs no linker.

        fcompile: called as fcompile(file_name, object_files, **kwargs) in place of the linker; its result is
        returned. addons: more files for it. workspace_dir: where the objects go (a temporary folder by default).
        Raises LinkError when linking fails, ArtifactError for a module that cannot be written.
        """
        from compiler.runtime.files.library import export_library

        return export_library(self, file_name, fcompile, addons, workspace_dir, **kwargs)


class CPUModule(Module):
    """An artifact's object code, loaded into this process."""

    type_key = "llvm"
    format = "o"

    def __init__(self, artifact: Artifact, code: Code) -> None:
        super().__init__()
        self.artifact = artifact
        self._code = code
        self._functions: dict[str, CPUFunction] = {}
        if "-system-lib" in artifact.target and Target(artifact.target).get("system-lib"):
            from compiler.runtime.core.special_modules import system_lib

            system_lib().register(self)

    def __repr__(self) -> str:
        return f"<CPUModule {', '.join(self.get_function_list())}>"

    def get_function_list(self) -> list[str]:
        return [entry.name for entry in self.artifact.entries]

    def _find(self, name: str) -> CPUFunction | None:
        function = self._functions.get(name)
        if function is None and name in self.get_function_list():
            function = self._functions[name] = CPUFunction(self.artifact.entry(name), self._code)
        return function

    def _evaluator(self, func_name: str, dev: Device, options: EvaluatorOptions) -> Callable[..., BenchmarkResult]:
        if not isinstance(dev, Device) or dev.api is not find_api("cpu"):
            raise DeviceError(f"this module runs on the CPU; it cannot be timed on {dev}", hint="pass cpu(0)")
        function = self.get_function(func_name, query_imports=True)
        preprocess = preprocessor(options.f_preproc)
        if not isinstance(function, CPUFunction):
            raise DeviceError(f"{func_name} is not a function on this machine's CPU")

        def evaluate(*args: Any) -> BenchmarkResult:
            slots = function.pack(args)
            return measure(
                run=lambda number: function.run_timed(slots, number),
                options=options,
                prepare=lambda: None if preprocess is None else preprocess(*args),
                threads=native.threads(),
            )

        return evaluate

    def import_module(self, module: Module) -> None:
        """As every module does; a static library may bring the functions that this one's code waits for."""
        super().import_module(module)
        if isinstance(self._code, NotLoaded):
            from compiler.runtime.files.library import static_objects

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
        """The text kept when the module was built: "ll" (LLVM IR, the default), "asm" or "tir"; or a C header, "h".

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

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the module to a file, by `fmt` or the file's suffix.

        "tunefarm" (also without a suffix): the artifact, which `load_module` reads. "o": the object file.
        "ll", "s" or "asm", "tir": source; "h": a C header. Raises ArtifactError for other formats.
        """
        path = Path(file_name)
        wanted = (fmt or path.suffix.removeprefix(".") or "tunefarm").lower()
        if wanted == "tunefarm":
            data = self.artifact.to_bytes()
        elif wanted == "o":
            from compiler.runtime.files.library import described_object

            data = described_object(self.artifact)
        elif wanted == "h" or wanted in _SOURCE_FORMATS:
            data = self.get_source(wanted).encode("utf-8")
        else:
            raise ArtifactError(
                f"a module cannot be saved as {wanted!r}",
                hint="formats: tunefarm, o, ll, s, asm, tir, h; `export_library` makes shared libraries",
            )
        path.write_bytes(data)


_SOURCE_FORMATS = {"": "ll", "ll": "ll", "llvm": "ll", "asm": "asm", "s": "asm", "tir": "tir"}


def check_runnable(artifact: Artifact) -> None:
    """Raise ArtifactError, saying what is missing, unless this machine's CPU can run the artifact."""
    target = Target(artifact.target)
    if target.device_type != "cpu":
        raise ArtifactError(f"the artifact is for {target.kind}, not for a CPU: {target}")
    here, wanted = architecture(None), architecture(target.mtriple)
    if wanted != here:
        raise ArtifactError(f"the artifact is for {wanted}; this machine is {here}")
    cpu = host_cpu()
    missing = sorted(set(artifact.cpu_features) - cpu.features)
    if missing:
        raise ArtifactError(
            f"the artifact needs CPU features this machine lacks: {', '.join(missing)} (this CPU: {cpu.name})",
            hint="build it for this machine's target, or run it on a device that has them",
            detail={"missing": missing, "cpu": cpu.name},
        )


def load_code(artifact: Artifact, libraries: Sequence[bytes] = ()) -> LoadedObject:
    """Link an artifact's object code, with more objects, into this process. Raises ArtifactError as `load_artifact`."""
    check_runnable(artifact)
    code = artifact.blobs.get("object")
    if code is None:
        raise ArtifactError("the artifact holds no object code")
    required = [name for e in artifact.entries for name in (e.symbol, f"{e.symbol}_packed")]
    return load_object(code, required, (*artifact.linked, *libraries))


def load_artifact(artifact: Artifact) -> Module:
    """Load an artifact's object code into this process; of one for a GPU, make the module that starts its kernels.

    Raises ArtifactError when this CPU cannot run it, or it is not what its manifest says.
    """
    if Target(artifact.target).device_type == "cuda":
        from compiler.runtime.cuda.module import CUDAHostModule

        return CUDAHostModule(artifact)
    return CPUModule(artifact, load_code(artifact))


def load_module(path: str, fmt: str = "") -> Module:
    """Load a module from an artifact, an object, a shared library or a tar file, with the modules it imports.

    The file is what `save` or `export_library` wrote; its contents decide, `fmt` only where they do not. Raises
    ArtifactError for a file that cannot be read, is damaged, or was not written by tunefarm.
    """
    from compiler.runtime.files.library import load_file

    return load_file(path, fmt)
