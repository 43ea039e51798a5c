"""Questions about TensorIR functions, under Apache TVM's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from compiler.arith.analysis import get_block_access_region
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops


def calculate_allocated_bytes(func_or_mod: n.PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """Give the bytes that each function allocates, by memory scope.
    Sizes that are not known count as nothing."""
    if isinstance(func_or_mod, n.PrimFunc):
        return {"main": _allocated(func_or_mod)}
    funcs = {var.name_hint: func for var, func in func_or_mod.functions.items()}
    return {name: _allocated(func) for name, func in funcs.items() if isinstance(func, n.PrimFunc)}


def calculate_constant_bytes(func: n.PrimFunc, constant_byte_alignment: int = 1) -> int:
    """Give the bytes of a function's constants: none, for constants are arguments here."""
    return 0


def get_block_read_write_region(
    block: n.Block, buffer_var_map: Mapping[n.Var, n.Buffer] | None = None
) -> list[list[n.BufferRegion]]:
    """Give [reads, writes] found from the body of a block."""
    return get_block_access_region(block, buffer_var_map)[:2]


def find_anchor_block(mod: IRModule) -> n.Block | None:
    """Return the reduction of a module that computes most; None where there is none."""
    blocks = [
        node
        for func in mod.functions.values()
        if isinstance(func, n.PrimFunc)
        for node in walk(func.body)
        if isinstance(node, n.Block) and node.init is not None
    ]
    return max(blocks, key=_points, default=None)


def _points(block: n.Block) -> int:
    return prod(ops.as_int(axis.dom.extent) or 1 for axis in block.iter_vars if axis.dom is not None)


def is_pure_function(func: n.PrimFunc) -> bool:
    """Return whether a function does nothing but compute.
    It writes only memory that it allocates, and calls nothing that has effects."""
    own = {node.buffer_var for node in walk(func.body) if isinstance(node, n.Allocate)}
    own |= {buffer.data for node in walk(func.body) if isinstance(node, n.Block) for buffer in node.alloc_buffers}
    for node in walk(func.body):
        if isinstance(node, n.BufferStore) and node.buffer.data not in own:
            return False
        if isinstance(node, n.Call) and not getattr(node.op, "pure", False):
            return False
    return True


def assert_pure_function(func: n.PrimFunc) -> bool:
    """Return True for a pure function. Raises IRError for another."""
    if not is_pure_function(func):
        raise IRError("the function has effects: it writes memory that is not its own, or calls what does")
    return True


def verify_ssa(func: n.PrimFunc) -> bool:
    """Whether each variable is defined once."""
    counts = Counter(id(var) for node in walk(func.body) for var in _defined(node))
    return all(count == 1 for count in counts.values())


def verify_gpu_code(func: n.PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether a function keeps within what a GPU has.

    Constraints: `max_shared_memory_per_block` and `max_local_memory_per_block` (bytes), `max_threads_per_block`,
    `max_thread_x`, `max_thread_y`, `max_thread_z`, `max_vthread`, `max_vector_bytes`.
    """
    threads = _threads(func)
    held = _allocated(func)
    found = {
        "max_shared_memory_per_block": sum(size for scope, size in held.items() if scope.startswith("shared")),
        "max_local_memory_per_block": sum(size for scope, size in held.items() if scope.startswith("local")),
        "max_threads_per_block": prod(threads.get(f"threadIdx.{axis}", 1) for axis in "xyz"),
        **{f"max_thread_{axis}": threads.get(f"threadIdx.{axis}", 1) for axis in "xyz"},
        "max_vthread": max((size for tag, size in threads.items() if tag.startswith("vthread")), default=1),
        "max_vector_bytes": max(
            (_bytes(node.dtype) for node in walk(func.body) if isinstance(node, n.BufferLoad)), default=0
        ),
    }
    return all(found.get(name, 0) <= ops.as_int(most) for name, most in constraints.items())  # type: ignore[operator]


def _bytes(dtype: str) -> int:
    found = parse_dtype(dtype)
    return -(-found.bits // 8) * found.lanes


def _size(extents: tuple[n.PrimExpr, ...], dtype: str) -> int:
    known = [ops.as_int(extent) for extent in extents]
    return 0 if None in known else prod(size for size in known if size is not None) * _bytes(dtype)


def _allocated(func: n.PrimFunc) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for node in walk(func.body):
        if isinstance(node, n.Allocate):
            sizes[node.scope] += _size(node.extents, node.dtype)
        elif isinstance(node, n.Block):
            for buffer in node.alloc_buffers:
                sizes[buffer.scope] += _size(buffer.shape, buffer.dtype)
    return dict(sizes)


def _defined(node: object) -> tuple[n.Var, ...]:
    match node:
        case n.For():
            return (node.loop_var,)
        case n.LetStmt() | n.Let():
            return (node.var,)
        case n.Allocate():
            return (node.buffer_var,)
        case n.Block():
            return tuple(axis.var for axis in node.iter_vars)
        case _:
            return ()


def _threads(func: n.PrimFunc) -> dict[str, int]:
    """The extent of each thread axis; the largest, where loops differ."""
    found: dict[str, int] = {}
    for node in walk(func.body):
        tag, extent = "", None
        if isinstance(node, n.For) and node.thread_binding is not None:
            tag, extent = node.thread_binding.thread_tag, node.extent
        elif isinstance(node, n.AttrStmt) and isinstance(node.node, n.IterVar):
            tag, extent = node.node.thread_tag, node.value
        if extent is not None:
            found[tag] = max(found.get(tag, 1), ops.as_int(extent) or 1)
    return found
