"""A lowered PrimFunc as LLVM IR text: the kernel with a C signature, and its packed entry.

For a function with global symbol `f`: `void f(T* a, ..., scalars)`, arguments in order, and
`i32 f_packed(ptr slots)` whose slots are 8 bytes each: a pointer, an i64, or a double for a float scalar. The
packed entry returns 0, or what went wrong: -1 for no memory, -2 where the system forbids the matrix unit, 1 for a
failed assertion. Variables that the shapes of the arguments bind follow the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from compiler.codegen.llvm import expr, intrinsics, loads, stores  # noqa: F401  (they register their emitters)
from compiler.codegen.llvm.gen import CodegenOptions, Gen, KernelStorage, ModuleText
from compiler.codegen.llvm.stmt import emit
from compiler.codegen.llvm.types import bits_of, code_of, llvm_type
from compiler.codegen.llvm.writer import FunctionWriter
from compiler.codegen.llvm.x86.amx import ask_for_tiles, uses_tiles
from compiler.codegen.llvm.x86.bfloat16 import takes_denormals_for_zero
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.ir.visit import walk
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.lower.loops.bf16_compute_legalize import bf16_compute_legalize
from compiler.tir import nodes as n
from compiler.tir.intrin.graph import CONSTANTS as GRAPH_CONSTANTS
from compiler.tir.intrin.graph import RESULTS
from compiler.tir.intrin.ptx import MEMORY


@dataclass(frozen=True, slots=True)
class LLVMParameter:
    """One argument of a kernel: a buffer, or a scalar when `buffer` is None."""

    var: n.Var
    buffer: n.Buffer | None

    @property
    def type(self) -> str:
        return "ptr" if self.buffer is not None else llvm_type(self.var.dtype)


def llvm_text(
    functions: Mapping[str, n.PrimFunc],
    options: CodegenOptions,
    symbols: Mapping[str, str] | None = None,
    shared: Set[str] = frozenset(),
) -> str:
    """LLVM IR of lowered functions by symbol, for one module.
    `symbols` are the linker symbols of the functions that are called, by their names in the IR. Functions missing in
    `functions` are in a module that this one is linked with. `shared` are the symbols that such a module calls. Raises
    CodegenError where there is no code for a construct."""
    elsewhere = frozenset((symbols or {}).values()) - functions.keys()
    module = ModuleText(options, symbols, elsewhere, shared)
    module.constants = max((int(func.attrs.get(GRAPH_CONSTANTS, 0)) for func in functions.values()), default=0)
    for symbol, func in functions.items():
        _kernel(module, symbol, func)
    attributes = "nounwind"
    if options.vector_bits >= 512:
        attributes += f' "prefer-vector-width"="{options.vector_bits}"'
    return module.text(attributes)


def called_symbols(func: n.PrimFunc, symbols: Mapping[str, str]) -> frozenset[str]:
    """The symbols of the functions beside it that a lowered function calls."""
    called = (node.op for node in walk(func.body) if isinstance(node, n.Call))
    names = {op.name_hint for op in called if isinstance(op, GlobalVar)}
    return frozenset(symbols[name] for name in names if name in symbols)


def parameters(func: n.PrimFunc) -> list[LLVMParameter]:
    """Return what the caller passes."""
    return [LLVMParameter(var, func.buffer_map.get(var)) for var in func.params]


def _kernel_parameters(func: n.PrimFunc) -> list[LLVMParameter]:
    return [*parameters(func), *(LLVMParameter(bound.var, None) for bound in shape_vars(func, strided=True))]


def written_buffers(func: n.PrimFunc) -> set[n.Var]:
    """Return the data variables of the buffers that `func` writes.

    It writes those that it stores to, and those whose address it passes to a call with effects.
    """
    found: set[n.Var] = set()
    for node in walk(func.body):
        match node:
            case n.BufferStore():
                found.add(node.buffer.data)
            case n.Call(op=op) if getattr(op, "name", "") == "tir.prefetch":
                pass  # has effects, but on caches
            case n.Call(args=(n.BufferLoad() as element, *_), op=op) if not getattr(op, "pure", False):
                found.add(element.buffer.data)
            case n.Call(args=(_, n.Var() as data, *_), op=op) if getattr(op, "name", "") == "tir.tvm_access_ptr":
                found.add(data)
            case n.Call(op=op) if getattr(op, "name", "") in MEMORY:
                found.update(x for x in (node.args[i] for i in MEMORY[op.name][1]) if isinstance(x, n.Var))  # type: ignore[union-attr]
            case n.Call(op=op) if not getattr(op, "pure", False):
                found.update(a for a in node.args if isinstance(a, n.Var))
            case _:
                pass
    return found


def _kernel(module: ModuleText, symbol: str, func: n.PrimFunc) -> None:
    func = bf16_compute_legalize(func)
    params = _kernel_parameters(func)
    noalias = bool(func.attrs.get("tir.noalias", False))
    written = written_buffers(func)
    texts = [parameter_text(p, i, noalias, written) for i, p in enumerate(params)]
    linkage = "hidden" if symbol in module.shared else "internal"
    w = FunctionWriter(f'define {linkage} i32 @"{symbol}.run"({", ".join(texts)})')
    g = Gen(module, w, LinearForms(), symbol, noalias, denormals_are_zero=takes_denormals_for_zero(func.body))
    for position, param in enumerate(params):
        bind_parameter(g, param, f"%arg{position}")
    if uses_tiles(func.body):
        ask_for_tiles(g)
    emit(g, func.body)
    module.functions.append(w.text())
    module.functions.append(_typed(symbol, params, is_graph=RESULTS in func.attrs))
    module.functions.append(_packed(symbol, params))


def parameter_text(param: LLVMParameter, position: int, noalias: bool, written: set[n.Var]) -> str:
    if param.buffer is None:
        return f"{param.type} %arg{position}"
    flags = ["align 64"]
    if noalias:
        flags.append("noalias")
        if param.buffer.data not in written and param.var not in written:
            flags.append("readonly")
    return f"ptr {' '.join(flags)} %arg{position}"


def bind_parameter(g: Gen, param: LLVMParameter, name: str) -> None:
    w, var = g.w, param.var
    w.level_of[name] = 0
    if param.buffer is not None:
        elements = 1
        for dim in param.buffer.shape:
            elements *= dim.value if isinstance(dim, n.IntImm) else 0
        memory = KernelStorage(name, None if param.buffer.strides else elements or None)
        g.storage[param.buffer.data] = memory
        g.storage[var] = memory
    elif code_of(var.dtype) == "int":
        g.index_vars[var] = name if bits_of(var.dtype) == 64 else w.value(f"sext {param.type} {name} to i64", name)
    else:
        g.value_vars[var] = name


def _typed(symbol: str, params: list[LLVMParameter], *, is_graph: bool) -> str:
    """The C entry. A kernel's has no way to tell of a failure; a graph's returns its code."""
    arguments = ", ".join(f"{param.type} %a{i}" for i, param in enumerate(params))
    return "\n".join(
        [
            f'define {"i32" if is_graph else "void"} @"{symbol}"({arguments}) #0 {{',
            "entry:",
            f'  %code = call i32 @"{symbol}.run"({arguments})',
            "  ret i32 %code" if is_graph else "  ret void",
            "}",
            "",
        ]
    )


def _packed(symbol: str, params: list[LLVMParameter]) -> str:
    """The entry that takes an array of 8-byte slots."""
    lines = [f'define i32 @"{symbol}_packed"(ptr %slots) #0 {{', "entry:"]
    arguments: list[str] = []
    for i, param in enumerate(params):
        lines.append(f"  %s{i} = getelementptr i64, ptr %slots, i64 {i}")
        lines += _slot(param, i)
        arguments.append(f"{param.type} %a{i}")
    lines += [f'  %code = call i32 @"{symbol}.run"({", ".join(arguments)})', "  ret i32 %code", "}", ""]
    return "\n".join(lines)


def _slot(param: LLVMParameter, i: int) -> list[str]:
    """Instructions that define %a{i} from slot %s{i}."""
    ty, dtype = param.type, param.var.dtype
    if ty == "ptr" or ty in ("i64", "double"):
        return [f"  %a{i} = load {ty}, ptr %s{i}, align 8"]
    if code_of(dtype) in ("float", "bfloat") and bits_of(dtype) == 16:
        raise CodegenError(f"argument {param.var.name!r}: a {dtype} scalar cannot be passed", hint="use float32")
    if code_of(dtype) == "float":
        return [f"  %d{i} = load double, ptr %s{i}, align 8", f"  %a{i} = fptrunc double %d{i} to {ty}"]
    return [f"  %w{i} = load i64, ptr %s{i}, align 8", f"  %a{i} = trunc i64 %w{i} to {ty}"]
