"""Kernels as LLVM IR for `nvptx64`, and that as PTX. No GPU and no CUDA toolkit is needed.

A kernel is a wrapper with the calling convention of kernels around a function written as the CPU's are. Pointers are
generic in the text; LLVM finds out which are global and which shared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set

from compiler.codegen.llvm.gen import CodegenOptions, DeviceOptions, Gen, ModuleText
from compiler.codegen.llvm.llvm import fast_math_flags, optimised_assembly
from compiler.codegen.llvm.module import bind_parameter, parameter_text, parameters, written_buffers
from compiler.codegen.llvm.stmt import emit
from compiler.codegen.llvm.types import element_bytes, lanes_of
from compiler.codegen.llvm.writer import FunctionWriter
from compiler.codegen.nvptx import threads as ptx_threads
from compiler.errors import CodegenError
from compiler.ir.visit import walk
from compiler.launches import MAX_BLOCK, MAX_GRID, MAX_THREADS
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.gpu.split_host_device import KernelLaunch
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx_warpgroup import ALIGN as SWIZZLED_ALIGN
from compiler.tir.intrin.ptx_warpgroup import ARCH as WARPGROUP_ARCH
from compiler.tir.intrin.ptx_warpgroup import CALLS as WARPGROUP_CALLS
from compiler.tir.intrin.ptx_warpgroup import LIMIT

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT_ARCH = "sm_80"
SHARED_ALIGN = 128
_TENSOR_MAP = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
_EXTERNAL = re.compile(r"^\.extern \.func .*?(\w+)\s*$", re.MULTILINE)  # a function the module does not have
# The most shared memory of a block, in bytes, by compute capability (CUDA programming guide, technical specifications).
_SHARED = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227, 120: 99, 121: 99}


def arch_of(target: Target) -> str:
    """The target's architecture. Raises CodegenError for one without code here."""
    arch = target.gpu_arch or DEFAULT_ARCH
    if not arch.startswith("sm_") or capability(arch) not in _SHARED:
        known = ", ".join(f"sm_{number}" for number in _SHARED)
        raise CodegenError(f"there is no code generator for {arch!r}", hint=f"architectures: {known}, sm_90a, sm_100a")
    return arch


def capability(arch: str) -> int:
    """The compute capability of an architecture: 90 of "sm_90a"; -1 where it has no number."""
    return int("".join(c for c in arch if c.isdigit()) or "-1")


def max_shared_bytes(arch: str) -> int:
    """Return the largest shared memory that a block of `arch` may have."""
    return _SHARED[capability(arch)] << 10


def ptx_text(kernels: Mapping[str, KernelLaunch], target: Target) -> tuple[str, str, dict[str, int]]:
    """(LLVM IR, PTX, dynamic shared memory in bytes by symbol) of kernels by symbol. Raises CodegenError."""
    arch = arch_of(target)
    dynamic: dict[str, int] = {}
    module = ModuleText(CodegenOptions(fast_math=fast_math_flags(target), vector_bits=128, half_conversions=True))
    for symbol, kernel in kernels.items():
        dynamic[symbol] = _kernel(module, symbol, kernel, arch)
    text = module.text("nounwind")
    ptx = optimised_assembly(text, TRIPLE, arch)
    if missing := sorted(set(_EXTERNAL.findall(ptx))):
        raise CodegenError(
            f"the kernels call {', '.join(missing)}, which a GPU does not have", hint="compute it in float32"
        )
    return text, ptx, dynamic


def _kernel(module: ModuleText, symbol: str, kernel: KernelLaunch, arch: str) -> int:
    """Add one kernel. Returns its dynamic shared memory in bytes."""
    func = kernel.func
    operators = {getattr(node.op, "name", "") for node in walk(func.body) if isinstance(node, n.Call)}
    _check_kernel(symbol, kernel, operators, arch)
    align = SWIZZLED_ALIGN if operators & WARPGROUP_CALLS else SHARED_ALIGN
    dynamic = _shared_bytes(func, align) > ptx_threads.STATIC_SHARED_BYTES
    maps = {func.buffer_map[p].data: f"%arg{i}" for i, p in enumerate(func.params[: len(kernel.tensor_maps)])}
    options = DeviceOptions(arch, _extents(kernel), max_shared_bytes(arch), dynamic, align, maps)
    module.options = module.options.with_device(options)
    if dynamic:
        _declare_dynamic(module, align)
    params = parameters(func)
    noalias = bool(func.attrs.get("tir.noalias", False))
    written = written_buffers(func)
    plain = [parameter_text(p, i, noalias, written) for i, p in enumerate(params)][len(maps) :]
    inside = ", ".join([*(f"ptr %arg{i}" for i in range(len(maps))), *plain])
    w = FunctionWriter(f'define internal i32 @"{symbol}.run"({inside})')
    g = Gen(module, w, LinearForms(), symbol, noalias, parallel=False)
    for position, param in enumerate(params[len(maps) :], len(maps)):
        bind_parameter(g, param, f"%arg{position}")
    emit(g, func.body)
    module.functions.append(w.text("alwaysinline #0"))
    texts = ", ".join([*(f"{_TENSOR_MAP} %arg{i}" for i in range(len(maps))), *plain])
    block = ",".join(map(str, kernel.block))
    alone = ' "nvvm.minctasm"="1"' if LIMIT in operators else ""  # without it the limit is not known at the entry
    arguments = ", ".join(f"{p.type} %arg{i}" for i, p in enumerate(params))
    module.functions.append(
        f'define ptx_kernel void @"{symbol}"({texts}) #0 "nvvm.maxntid"="{block}"{alone} {{\n'
        f'  %code = call i32 @"{symbol}.run"({arguments})\n  ret void\n}}\n'
    )
    return g.shared_bytes if dynamic else 0


def _check_kernel(symbol: str, kernel: KernelLaunch, operators: Set[str], arch: str) -> None:
    """Raise CodegenError for what `arch` does not have, and for too many threads or blocks."""
    if (hopper := sorted(operators & WARPGROUP_CALLS)) and arch != WARPGROUP_ARCH:
        raise CodegenError(f"{symbol}: {arch} has no {hopper[0]}", hint=f"build for cuda -arch={WARPGROUP_ARCH}")
    threads = math.prod(kernel.block)
    if threads > MAX_THREADS:
        raise CodegenError(
            f"{symbol}: a block of {' x '.join(map(str, kernel.block))} threads is {threads}, more than {MAX_THREADS}",
            hint="split by a smaller factor",
        )
    sizes = [(f"threadIdx.{a}", size, most) for a, size, most in zip("xyz", kernel.block, MAX_BLOCK)]
    sizes += [(f"blockIdx.{a}", ops.as_int(e) or 0, most) for a, e, most in zip("xyz", kernel.grid, MAX_GRID)]
    for tag, size, most in sizes:
        if size > most:
            raise CodegenError(f"{symbol}: {tag} has an extent of {size}, more than {most}", hint="blockIdx.x has most")


def _extents(kernel: KernelLaunch) -> dict[str, int]:
    """Threads and blocks along each axis, where known."""
    threads = {f"threadIdx.{axis}": size for axis, size in zip("xyz", kernel.block)}
    blocks = {f"blockIdx.{a}": size for a, e in zip("xyz", kernel.grid) if (size := ops.as_int(e)) is not None}
    return threads | blocks


def _declare_dynamic(module: ModuleText, align: int) -> None:
    """The one piece of dynamic shared memory.
    Kernels of one module share its name, and so the largest alignment."""
    start = f"{ptx_threads.DYNAMIC} = external addrspace(3) global [0 x i8], align "
    known = next((i for i, line in enumerate(module.globals) if line.startswith(start)), None)
    if known is None:
        module.globals.append(f"{start}{align}")
    else:
        module.globals[known] = f"{start}{max(align, int(module.globals[known].removeprefix(start)))}"


def _shared_bytes(func: n.PrimFunc, align: int) -> int:
    total = 0
    for node in walk(func.body):
        if isinstance(node, n.Allocate) and node.scope.startswith("shared"):
            size = element_bytes(node.dtype) * lanes_of(node.dtype)
            for extent in node.extents:
                size *= ops.as_int(extent) or 1
            total += -(-size // align) * align
    return total
