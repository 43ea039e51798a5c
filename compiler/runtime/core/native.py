"""The runtime's own machine code (native.ll), linked into the process when first needed.

LLVM compiles it, unless a model that was loaded before brings it compiled. Then the process needs no LLVM.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from compiler.errors import DeviceError
from compiler.runtime.core.object_linker import UnknownObject, link
from compiler.target.cpu_features import architecture

if TYPE_CHECKING:
    import llvmlite.binding as llvm

# Functions that objects may call.
EXPORTS = frozenset(
    {"tunefarm_parallel_for", "tunefarm_alloc", "tunefarm_free", "tunefarm_tiles", "tunefarm_call_packed"}
)

# Per architecture what native.ll leaves open: numbers of system calls (-1: there is none), a spin-wait hint.
ARCHITECTURES = {
    "x86_64": {
        "FUTEX": "202", "ARCH_PRCTL": "158", "PAUSE": "call void @llvm.x86.sse2.pause()",
        "PAUSE_DECLARE": "declare void @llvm.x86.sse2.pause()",
    },
    "aarch64": {
        "FUTEX": "98", "ARCH_PRCTL": "-1", "PAUSE": "call void @llvm.aarch64.hint(i32 1)",
        "PAUSE_DECLARE": "declare void @llvm.aarch64.hint(i32)",
    },
    "riscv64": {"FUTEX": "98", "ARCH_PRCTL": "-1", "PAUSE": "", "PAUSE_DECLARE": ""},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The native functions as Python calls them. Each releases the GIL while it runs."""

    parallel_for: Any
    set_threads: Any
    get_threads: Any
    set_cores: Any
    set_callback: Any
    after_fork: Any
    alloc: Any
    free: Any
    time: Any
    exports: Mapping[str, int]
    """The addresses of `EXPORTS`."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The threads of one copy of the native code: the runtime's own, or a loaded library's."""

    set_threads: Any
    set_cores: Any
    set_callback: Any
    after_fork: Any

    @staticmethod
    def of(library: ctypes.CDLL) -> Pool:
        """The pool of a library made by `export_library`."""
        library.tunefarm_set_threads.argtypes = [ctypes.c_int32]
        library.tunefarm_set_cores.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        for function in (library.tunefarm_set_threads, library.tunefarm_set_cores, library.tunefarm_after_fork):
            function.restype = None
        set_callback: Any = _no_callback
        if hasattr(library, "tunefarm_set_callback"):  # else it is a library of before there were any
            set_callback = library.tunefarm_set_callback
            set_callback.argtypes, set_callback.restype = [ctypes.c_void_p], None
        return Pool(library.tunefarm_set_threads, library.tunefarm_set_cores, set_callback, library.tunefarm_after_fork)


def _no_callback(hook: int) -> None:
    """Do nothing: none of its kernels call Python's functions."""


MAX_THREADS = 1024

_lock = threading.Lock()
_native: NativeLibrary | None = None
_initialised = False
_threads: int | None = None  # as set before the native code was there
_cores: tuple[int, ...] = ()  # of the pools' threads
_callback: int | None = None  # the address of what calls Python's functions
_pools: list[NativeLibrary | Pool] = []
_offered: bytes | None = None  # the native functions, compiled before


def target_machine(opt: int = 0) -> llvm.TargetMachine:
    """A fresh target machine for this process (an execution engine consumes the one it gets)."""
    global _initialised
    import llvmlite.binding as llvm  # not needed to run a built model

    if not _initialised:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _initialised = True
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(opt=opt, reloc="pic", jit=True)


def load() -> NativeLibrary:
    """Compile and link the native functions, the first time. Raises DeviceError off Linux."""
    global _native
    if _native is None:
        with _lock:
            if _native is None:
                built = _build()
                _adopt(built)
                _native = built
    return _native


def threads() -> int:
    """Threads a parallel loop uses: as set, else one per core in this process's affinity mask."""
    if _native is not None:
        return int(_native.get_threads())
    return _threads or max(1, min(MAX_THREADS, len(os.sched_getaffinity(0))))


def set_threads(count: int) -> None:
    """Use `count` threads (1 to MAX_THREADS) from the next parallel loop on."""
    global _threads
    with _lock:
        _threads = count
        for pool in _pools:
            pool.set_threads(count)


def set_cores(cores: Sequence[int]) -> None:
    """Pin each pool's thread i to core i of `cores`, from its next parallel loop on.
    Without cores, none is pinned."""
    global _cores
    with _lock:
        _cores = tuple(cores)
        for pool in _pools:
            _pin(pool)


def add_pool(pool: Pool) -> None:
    """Give a loaded library's pool as many threads as the runtime's, pinned to the same cores."""
    with _lock:
        _adopt(pool)


def set_callback(address: int) -> None:
    """Let kernels call Python's functions through the C function at `address`: see `callbacks`."""
    global _callback
    with _lock:
        _callback = address
        for pool in _pools:
            pool.set_callback(address)


def _adopt(pool: NativeLibrary | Pool) -> None:
    pool.set_threads(threads())
    if _callback is not None:
        pool.set_callback(_callback)
    if _cores:
        _pin(pool)
    _pools.append(pool)


def _pin(pool: NativeLibrary | Pool) -> None:
    pool.set_cores((ctypes.c_int32 * len(_cores))(*_cores), len(_cores))


def _after_fork() -> None:
    """Replace the pools in a forked child.
    It has none of their threads, and nobody who would release the lock."""
    global _lock
    _lock = threading.Lock()
    for pool in _pools:
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def source_text(arch: str) -> str:
    """native.ll for one of `ARCHITECTURES`."""
    source = files("compiler.runtime.core").joinpath("native.ll").read_text("utf-8")
    return Template(source).substitute(ARCHITECTURES[arch])


@cache
def blob_name(arch: str) -> str:
    """Return the name of the compiled native functions in an artifact. It changes with their source."""
    return f"native.{hashlib.sha256(source_text(arch).encode()).hexdigest()[:32]}"


def offer(blobs: Mapping[str, bytes]) -> None:
    """Take the native functions from an artifact's blobs, if they are of this version.
    They are loaded when needed."""
    global _offered
    arch = architecture(None)
    if _native is None and arch in ARCHITECTURES:
        _offered = blobs.get(blob_name(arch), _offered)


@lru_cache(maxsize=8)
def compiled(triple: str | None) -> bytes:
    """The native functions as an object for any program to link.
    Raises DeviceError for processors without them."""
    import llvmlite.binding as llvm

    arch = architecture(triple)
    if arch not in ARCHITECTURES:
        raise DeviceError(f"a library for {arch} cannot be made self-contained", hint='export to a ".tar" file')
    text = source_text(arch)
    target_machine()  # initialises LLVM
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic")
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def _build() -> NativeLibrary:
    arch = architecture(None)
    if platform.system() != "Linux" or arch not in ARCHITECTURES:
        raise DeviceError(f"kernels run on Linux (x86_64, aarch64, riscv64), not on {platform.system()} {arch}")
    address = _linked(_offered or _compiled_here(arch))
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64

    def function(name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(address(f"tunefarm_{name}"))

    return NativeLibrary(
        parallel_for=function("parallel_for", i32, pointer, pointer, i64),
        set_threads=function("set_threads", None, i32),
        get_threads=function("get_threads", i32),
        set_cores=function("set_cores", None, pointer, i32),
        set_callback=function("set_callback", None, pointer),
        after_fork=function("after_fork", None),
        alloc=function("alloc", pointer, i64),
        free=function("free", None, pointer),
        time=function("time", i64, pointer, pointer, i64),
        exports={name: address(name) for name in EXPORTS},
    )


def _compiled_here(arch: str) -> bytes:
    import llvmlite.binding as llvm

    # The text is in the shape it should run in: no optimiser, which keeps this to a few milliseconds.
    machine = target_machine()
    return bytes(machine.emit_object(llvm.parse_assembly(source_text(arch))))


def _linked(code: bytes) -> Callable[[str], int]:
    """Map the code for good, because worker threads run it until the process ends.
    Returns its addresses."""
    libc = ctypes.CDLL(None)
    try:
        return link([code], lambda name: _address_in(libc, name), for_good=True).address
    except UnknownObject:
        import llvmlite.binding as llvm

        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        engine.detach()
        return lambda name: int(engine.get_function_address(name))


def _address_in(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
