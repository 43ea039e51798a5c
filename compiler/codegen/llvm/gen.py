"""State shared by the emitters of one kernel, and the dispatch of expressions to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.artifact import CONSTANTS
from compiler.codegen.llvm.writer import FunctionWriter, Operand
from compiler.errors import CodegenError
from compiler.ir.base import Node
from compiler.lower.analysis.linear import LinearForms
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

NONTEMPORAL = "!0"  # the metadata of stores that bypass the caches


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The device for which a GPU's kernel is compiled.

    extents: threads and blocks along each axis ("threadIdx.x") where known. max_shared: bytes of a block.
    dynamic_shared: shared memory is parts of one piece whose size is told at the launch. shared_align: of its parts.
    tensor_maps: the descriptions of matrices that the kernel is passed, by the matrix's data variable.
    """

    arch: str
    extents: Mapping[str, int]
    max_shared: int
    dynamic_shared: bool = False
    shared_align: int = 128
    tensor_maps: Mapping[n.Var, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CodegenOptions:
    """The features of the target that the generator may use.

    features: LLVM names of the CPU features in use. fast_math: LLVM's flags on float arithmetic; the default
    lets a multiplication and an addition become one fused operation. half_conversions: the CPU converts between
    float16 and float32. device: the kernel at hand, where the code is for a GPU.
    """

    features: frozenset[str] = frozenset()
    fast_math: str = "contract"
    vector_bits: int = 128
    half_conversions: bool = False
    device: DeviceOptions | None = None

    def with_device(self, device: DeviceOptions) -> CodegenOptions:
        return replace(self, device=device)

    @property
    def nan_free(self) -> bool:
        """Whether the target says that no value is NaN."""
        return "nnan" in self.fast_math or self.fast_math == "fast"


class ModuleText:
    """The functions and declarations of one LLVM module.
    `symbols` gives each function's linker symbol by its name. Functions in `elsewhere` are defined in another module;
    those in `shared` are called from another one."""

    def __init__(
        self,
        options: CodegenOptions,
        symbols: Mapping[str, str] | None = None,
        elsewhere: Set[str] = frozenset(),
        shared: Set[str] = frozenset(),
    ) -> None:
        self.options = options
        self.symbols = symbols or {}
        self.elsewhere, self.shared = elsewhere, shared
        self.constants = 0  # of a model, whose addresses are in a table
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.defined: set[str] = set()  # helper functions among them, by name
        self.nontemporal = False  # whether some store bypasses the caches
        self._declared: dict[str, str] = {}
        self._strings: list[str] = []

    def declare(self, name: str, declaration: str) -> str:
        """`name`, with `declaration` (without the word declare) in the module."""
        self._declared.setdefault(name, declaration)
        return name

    def string(self, text: str) -> str:
        """A constant C string; returns its global's name."""
        data = text.encode() + b"\0"
        name = f"@str{len(self._strings)}"
        escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in data)
        self._strings.append(f'{name} = private constant [{len(data)} x i8] c"{escaped}"')
        return name

    def zeros(self, size: int) -> str:
        """A constant of `size` bytes of zeros; returns its global's name."""
        line = f"@zeros{size} = private constant [{size} x i8] zeroinitializer, align 64"
        if line not in self._strings:
            self._strings.append(line)
        return f"@zeros{size}"

    def text(self, attributes: str) -> str:
        declared = [f"declare {line}" for line in self._declared.values()]
        metadata = [f"{NONTEMPORAL} = !{{i32 1}}"] if self.nontemporal else []
        if self.constants:
            self.globals.append(f"@{CONSTANTS} = hidden global [{self.constants} x ptr] zeroinitializer, align 8")
        ending = [f"attributes #0 = {{ {attributes} }}", *metadata, ""]
        return "\n".join([*self._strings, *self.globals, *declared, "", *self.functions, *ending])


@dataclass(slots=True)
class KernelStorage:
    """The memory of a buffer: base pointer, size in elements if known, whether one thread alone sees it."""

    pointer: str
    elements: int | None = None
    private: bool = False


@dataclass(slots=True)
class Gen:
    """One function being written.

    `index_vars` holds integer variables of signed dtypes as 64-bit values or known integers; `value_vars` all
    others in their own type. `storage` the buffers' memory by data variable; `allocated` the memory that this
    function itself made for a variable, with its size. `nontemporal`: vectors are now stored past the caches.
    `transposes`: columns of local arrays are read now, all of them. `denormals_are_zero`: of bfloat16, for products of
    this kernel.
    """

    module: ModuleText
    w: FunctionWriter
    forms: LinearForms
    symbol: str
    noalias: bool = True
    parallel: bool = True
    nontemporal: bool = False
    transposes: bool = False
    denormals_are_zero: bool = False
    shared_bytes: int = 0  # of a GPU's block, so far
    index_vars: dict[n.Var, Operand] = field(default_factory=dict)
    value_vars: dict[n.Var, str] = field(default_factory=dict)
    storage: dict[n.Var, KernelStorage] = field(default_factory=dict)
    allocated: dict[n.Var, tuple[Operand, KernelStorage]] = field(default_factory=dict)

    def value(self, expr: PrimExpr) -> str:
        """Return the operand text of `expr` in its own LLVM type, and emit the instructions that compute it."""
        emit = VALUE.get(type(expr))
        if emit is None:
            raise CodegenError(f"no machine code for a {type(expr).__name__} expression in {self.symbol}")
        return emit(self, expr)

    def storage_of(self, buffer: n.Buffer) -> KernelStorage:
        found = self.storage.get(buffer.data)
        if found is None:
            raise CodegenError(
                f"buffer {buffer.name!r} of {self.symbol} is neither a parameter nor allocated around its use"
            )
        return found


VALUE: dict[type, Callable[[Gen, Any], str]] = {}
STMT: dict[type, Callable[[Gen, Any], None]] = {}
Stored = Callable[[Gen, n.Call, str], None]
STORED: dict[str, Stored] = {}


def emits(*kinds: type[Node]) -> Callable[[Callable[[Gen, Any], str]], Callable[[Gen, Any], str]]:
    """Register the function that emits expressions of these node types."""

    def register(function: Callable[[Gen, Any], str]) -> Callable[[Gen, Any], str]:
        for kind in kinds:
            VALUE[kind] = function
        return function

    return register


def stores(name: str) -> Callable[[Stored], Stored]:
    """Register the function that stores the value of a call of the operator `name` directly.
    No vector stands in between. Such calls may stand in stores only."""

    def register(function: Stored) -> Stored:
        STORED[name] = function
        return function

    return register


def runs(*kinds: type[Node]) -> Callable[[Callable[[Gen, Any], None]], Callable[[Gen, Any], None]]:
    """Register the function that emits statements of these node types."""

    def register(function: Callable[[Gen, Any], None]) -> Callable[[Gen, Any], None]:
        for kind in kinds:
            STMT[kind] = function
        return function

    return register
