"""The interface of every module.

Functions that can be called and timed, imports, source, a place in a library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Self

from compiler.errors import ArtifactError, TunefarmError
from compiler.runtime.core.device import Device
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.files.export import export_library
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions

ENTRY_NAME = "__tvm_main__"


class MissingFunctionError(TunefarmError, AttributeError, kind="missing_function"):
    """A module has no function of that name."""


class ModulePropertyMask(IntEnum):
    """The uses of a module, as the bits of a number."""

    BINARY_SERIALIZABLE = 1
    RUNNABLE = 2
    DSO_EXPORTABLE = 4


class Module(ABC):
    """Compiled functions, and the modules they import.

    `module["name"]` gets a function; calling the module calls its entry function: its only one, else "main".
    """

    type_key: ClassVar[str] = "module"
    format: ClassVar[str] = ""
    is_part_of_importer: ClassVar[bool] = False  # what imports it holds its code, and writes it
    static_code: bytes | None = None  # an object file to be linked with the code of the module that imports this one
    entry_name: str = ENTRY_NAME
    _offers: ClassVar[dict[str, Callable[[Module], PackedFunc]]] = {}
    machine_type: type[Any] | None = None  # what runs a model that is elsewhere, in the place of a machine here

    def __init__(self) -> None:
        self._imports: list[Module] = []

    # -- functions -------------------------------------------------------------------------------
    @abstractmethod
    def get_function_list(self) -> list[str]:
        """Names of the functions this module defines."""

    @abstractmethod
    def _find(self, name: str) -> PackedFunc | None:
        """The function of that name in this module itself."""

    @classmethod
    def offer(cls, name: str, make: Callable[[Module], PackedFunc]) -> None:
        """Register `make(module)` as the function of a name that models, here and on boxes, do not define."""
        cls._offers[name] = make

    def _offered(self, name: str) -> PackedFunc | None:
        make = self._offers.get(name)
        return None if make is None else make(self)

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
        self, func_name: str, dev: Device, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100, cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function that takes `func_name`'s arguments and measures it: see `TimingOptions`.

        The function is called 1 + number x repeat times (more if min_repeat_ms raises `number`); the first
        call is not counted. No Python runs inside a measured repeat.
        """
        options = TimingOptions(
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
    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
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

    def get_property_mask(self) -> int:
        """Return which of the three it is, as the sum of the values of `ModulePropertyMask`."""
        masks = {
            ModulePropertyMask.BINARY_SERIALIZABLE: self.is_binary_serializable,
            ModulePropertyMask.RUNNABLE: self.is_runnable,
            ModulePropertyMask.DSO_EXPORTABLE: self.is_dso_exportable,
        }
        return sum(mask for mask, holds in masks.items() if holds)

    @property
    def mod(self) -> Self:
        """Return this module. In newer versions of Apache TVM, a compiled result holds its module here."""
        return self

    def jit(self, **_options: object) -> Self:
        """Return this module, which runs as it is.
        Options for linking are accepted for compatibility with TVM."""
        return self

    def export_library(
        self, file_name: str, fcompile: Callable[..., Any] | None = None, addons: Sequence[str] | None = None,
        workspace_dir: str | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Write this module and those it imports into one file that `load_module` reads.

        A shared library (linked with the C compiler or linker found) needs nothing of tunefarm: any program can use
        it, with the header from `save("name.h")`. A name ending in ".tar" or ".tunefarm" needs no linker.

        fcompile: called as fcompile(file_name, object_files, **kwargs) in place of the linker; its result is
        returned. addons: more files for it. workspace_dir: where the objects go (a temporary folder by default).
        Raises LinkError when linking fails, ArtifactError for a module that cannot be written.
        """
        return export_library(self, file_name, fcompile, addons, workspace_dir, **kwargs)
