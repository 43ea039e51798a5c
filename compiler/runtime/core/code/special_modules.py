"""Modules other than one loaded artifact: objects to be linked into a library, and the system library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.files.elf import read_object
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions


class StaticLibrary(Module):
    """An object file that is linked into a library with the module that imports it.
    Its functions cannot be called."""

    type_key = "static_library"
    format = "o"

    def __init__(self, code: bytes, names: tuple[str, ...]) -> None:
        super().__init__()
        self.static_code = self._code = code
        self._names = names

    def get_function_list(self) -> list[str]:
        return list(self._names)

    @property
    def is_dso_exportable(self) -> bool:
        return True

    @property
    def is_runnable(self) -> bool:
        return False

    def _find(self, name: str) -> PackedFunc | None:
        if name not in self._names:
            return None
        raise self._refuse("called")

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        raise self._refuse("timed")

    def get_source(self, fmt: str = "") -> str:
        raise ArtifactError("a static library has no source")

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the object file as it was read."""
        Path(file_name).write_bytes(self._code)

    def _refuse(self, what: str) -> ArtifactError:
        return ArtifactError(
            f"a static library's functions cannot be {what}: nothing says what they take",
            hint="import it into a module, export that as a library, and use the library",
        )


def load_static_library(path: str, func_names: Sequence[str]) -> StaticLibrary:
    """An object file that defines `func_names`, for `Module.import_module`.

    Raises ArtifactError when the file cannot be read, is no object, or lacks one of the functions.
    """
    try:
        code = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read the object {str(path)!r}: {error.strerror}") from None
    defined = read_object(code).defined
    if absent := sorted(set(func_names) - defined):
        raise ArtifactError(f"the object {str(path)!r} does not define {', '.join(absent)}")
    return StaticLibrary(code, tuple(func_names))


class SystemLibrary(Module):
    """The functions of all loaded modules for a `-system-lib` target, the last loaded first.
    Names are those behind `prefix`, and functions whose names do not begin so are left out."""

    type_key = "system_lib"

    def __init__(self, modules: list[Module], prefix: str = "") -> None:
        super().__init__()
        self._modules = modules
        self._prefix = prefix

    def register(self, module: Module) -> None:
        self._modules.insert(0, module)

    def get_function_list(self) -> list[str]:
        names = {name for module in self._modules for name in module.get_function_list()}
        return sorted(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))

    def _find(self, name: str) -> PackedFunc | None:
        full = self._prefix + name
        return next((found for module in self._modules if (found := module._find(full)) is not None), None)

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        for module in self._modules:
            if module.implements_function(self._prefix + func_name):
                return module._evaluator(self._prefix + func_name, dev, options)
        raise ArtifactError(f"the system library has no function {func_name!r}")

    def get_source(self, fmt: str = "") -> str:
        raise ArtifactError("the system library has no source", hint="ask the modules it was made of")

    def save(self, file_name: str, fmt: str = "") -> None:
        raise ArtifactError("the system library cannot be saved", hint="save the modules it was made of")


_system_library = SystemLibrary([])


def system_lib(symbol_prefix: str = "") -> SystemLibrary:
    """The one module of all functions built or loaded for a target with `-system-lib`; they stay for good.

    With `symbol_prefix` it has those whose names begin so, under the rest of their names.
    """
    return SystemLibrary(_system_library._modules, symbol_prefix) if symbol_prefix else _system_library
