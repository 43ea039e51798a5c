"""Load an object file into this process: an empty MCJIT links and maps it, no linker needed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence

import llvmlite.binding as llvm

from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.files.elf import read_object
from compiler.target.cpu_features import architecture

# Where vector and scalar math functions live when the process has not loaded them already.
_MATH_LIBRARIES = ("libm.so.6", "libmvec.so.1")


class LoadedObject:
    """An object's code in memory, mapped until this is collected."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine

    def address(self, symbol: str) -> int:
        """The address of a symbol the object defines."""
        return int(self._engine.get_function_address(symbol))


class NotLoaded:
    """Code that cannot run here, or not yet. Who asks for a function is told why."""

    def __init__(self, reason: ArtifactError) -> None:
        self.reason = reason

    def address(self, symbol: str) -> int:
        raise ArtifactError(self.reason.message, hint=self.reason.hint, detail=self.reason.detail)


def load_object(data: bytes, required: Iterable[str], others: Sequence[bytes] = ()) -> LoadedObject:
    """Map an ELF object and link it to `others`, libc, libm and the runtime's `tunefarm_*` functions.

    Raises ArtifactError when one of the objects is for another CPU, or two define the same. Also raises it when none
    defines a symbol of `required`, or one needs a symbol that is nowhere to be found.
    """
    objects = [data, *others]
    symbols = [read_object(code) for code in objects]
    here = architecture(None)
    for read in symbols:
        if read.machine != here:
            raise ArtifactError(f"the object holds {read.machine} code; this machine is {here}")
    defined = frozenset().union(*(read.defined for read in symbols))
    if absent := sorted(set(required) - defined):
        raise ArtifactError(f"the object does not define {', '.join(absent)}")
    own = Counter(name for read in symbols for name in read.defined - read.weak)
    if twice := sorted(name for name, count in own.items() if count > 1):
        raise ArtifactError(f"more than one object defines {', '.join(twice)}")
    _resolve(frozenset().union(*(read.undefined for read in symbols)) - defined)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), native.target_machine())
    for code in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return LoadedObject(engine)


def _resolve(names: frozenset[str]) -> None:
    """Make sure each name can be linked; otherwise the linker would end the process."""
    if any(name in native.EXPORTS for name in names):
        native.load()
    missing = [name for name in names if not _is_known(name)]
    if missing:
        for library in _MATH_LIBRARIES:
            with contextlib.suppress(RuntimeError):  # not on this machine: the name stays missing
                llvm.load_library_permanently(library)
        missing = [name for name in missing if not _is_known(name)]
    if missing:
        raise ArtifactError(
            f"the object needs functions this machine does not have: {', '.join(sorted(missing))}",
            hint="import a `load_static_library` that defines them, or export with addons that do; the runtime offers "
            "libc, libm and " + ", ".join(sorted(native.EXPORTS)),
        )


def _is_known(name: str) -> bool:
    # The global offset table's base is made by the linker itself.
    return name == "_GLOBAL_OFFSET_TABLE_" or bool(llvm.address_of_symbol(name))
