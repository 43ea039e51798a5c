"""Load object files into this process, no linker needed.

`object_linker` links the objects of kernels, so that running a built model needs no LLVM. An empty MCJIT links others,
such as static libraries with exceptions, and objects for other processors than x86-64.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from compiler.errors import ArtifactError
from compiler.runtime.core import native
from compiler.runtime.core.object_linker import TABLE, UnknownObject, link
from compiler.runtime.files.elf import read_object
from compiler.target.cpu_features import architecture

# Where vector and scalar math functions live when the process has not loaded them already.
_MATH_LIBRARIES = ("libm.so.6", "libmvec.so.1")


class _Code(Protocol):
    def address(self, symbol: str) -> int: ...


class LoadedObject:
    """An object's code in memory, mapped until this is collected."""

    def __init__(self, code: _Code) -> None:
        self._code = code

    def address(self, symbol: str) -> int:
        """The address of a symbol the object defines."""
        return self._code.address(symbol)


class NotLoaded:
    """Code that cannot run here, or not yet. Asking for a function raises an error that says why."""

    def __init__(self, reason: ArtifactError) -> None:
        self.reason = reason

    def address(self, symbol: str) -> int:
        raise ArtifactError(self.reason.message, hint=self.reason.hint, detail=self.reason.detail)


def load_object(data: bytes, required: Iterable[str], others: Sequence[bytes] = ()) -> LoadedObject:
    """Map an ELF object and link it to `others`, libc, libm and the runtime's `tunefarm_*` functions.

    Raises ArtifactError if an object is for another CPU, if two define the same symbol, or if none defines a symbol of
    `required`. It also raises it if an object needs an unknown symbol.
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
    _check_known(frozenset().union(*(read.undefined for read in symbols)) - defined)
    try:
        return LoadedObject(link(objects, _address))
    except UnknownObject:
        return LoadedObject(_ByLLVM(objects))


class _ByLLVM:
    """Objects that LLVM has linked."""

    def __init__(self, objects: Sequence[bytes]) -> None:
        import llvmlite.binding as llvm

        for name, address in native.load().exports.items():
            llvm.add_symbol(name, address)
        for library in _MATH_LIBRARIES:
            if _opened(library) is not None:
                llvm.load_library_permanently(library)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), native.target_machine())
        for code in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        return int(self._engine.get_function_address(symbol))


def _check_known(names: frozenset[str]) -> None:
    """Make sure each name can be linked; LLVM's linker would end the process otherwise."""
    missing = [name for name in names if name != TABLE and not _address(name)]  # the linker makes the table
    if missing:
        raise ArtifactError(
            f"the object needs functions this machine does not have: {', '.join(sorted(missing))}",
            hint="import a `load_static_library` that defines them, or export with addons that do; the runtime offers "
            "libc, libm and " + ", ".join(sorted(native.EXPORTS)),
        )


def _address(name: str) -> int:
    """The address of a function that this process has; 0 where it has none of that name."""
    if name in native.EXPORTS:
        return native.load().exports[name]
    for library in (None, *_MATH_LIBRARIES):
        found = getattr(_opened(library), name, None) if name.isidentifier() else None
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value or 0
    return 0


@lru_cache(maxsize=8)
def _opened(library: str | None) -> ctypes.CDLL | None:
    """A library; None if this machine has none of that name.
    `library` None is what the process has loaded."""
    try:
        return ctypes.CDLL(library)
    except OSError:
        return None
