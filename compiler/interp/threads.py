"""Running a function with bound loops as a GPU would, to find races.

The check of schedules where no GPU is.

Every outermost loop that is bound to a thread axis is a kernel. Its threads run in lock step, one block after another.
Shared memory is watched (see `thread_memory`). All threads must reach barriers and warp exchanges (see
`thread_blocks`). The rest is the interpreter's: bounds, rounding, poisoned memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.interp import warpgroup as interp_warpgroup
from compiler.interp.expr import ValueCode
from compiler.interp.interpreter import compile_with
from compiler.interp.memory import reinterpreted, storage
from compiler.interp.stmt import StmtWriter
from compiler.interp.thread_blocks import launch
from compiler.interp.thread_memory import SharedView
from compiler.ir.visit import walk
from compiler.lower.gpu.thread_axes import AXES, bound_extents
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.gpu import ATOMICS, SHUFFLES
from compiler.tir.intrin.ptx import MEMORY
from compiler.tir.nodes import PrimExpr, Stmt

_PLACES = {"blockIdx": "T.block.index", "threadIdx": "T.index"}


def run(func: n.PrimFunc, *args: Any) -> None:
    """Execute `func` as `interp.run` does, with threads that run at once.

    Raises RaceError, DivergentBarrier, and what `interp.run` raises.
    """
    _compiled(func)(*args)


@lru_cache(maxsize=64)
def _compiled(func: n.PrimFunc) -> Any:
    return compile_with(func, ThreadWriter(func.body), {"launch": launch, "reinterpreted": _reinterpreted})


def _reinterpreted(memory: Any, code: str) -> Any:
    if isinstance(memory, SharedView):
        return memory if memory.format == code else memory.cast(code)
    return reinterpreted(memory, code)


class ThreadWriter(StmtWriter):
    """Writes a function whose kernels are generators, one run for each thread."""

    def __init__(self, body: Stmt) -> None:
        super().__init__(body)
        self._kernel: dict[str, list[PrimExpr]] | None = None  # the extents of the one being written
        self._sites = 0

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case n.For(kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)) if tag in AXES:
                self._bound(stmt, stmt.loop_var, stmt.min, stmt.extent, tag)
            case n.AttrStmt(attr_key="thread_extent", node=n.IterVar(thread_tag=tag) as axis) if tag in AXES:
                self._bound(stmt, axis.var, ops.const(0), stmt.value, tag)
            case _:
                super().stmt(stmt)

    def _bound(self, stmt: Any, var: n.Var, low: PrimExpr, extent: PrimExpr, tag: str) -> None:
        if self._kernel is None:
            self._launch(stmt)
            return
        kind, position = AXES[tag]
        size = self.index(extent)
        name = self.define(var, 0, None if size.hi is None else size.hi - 1)
        self.line(f"{name} = {_PLACES[kind]}[{position}]")
        smaller = any(not _same(extent, other) for other in self._kernel[tag])
        if smaller:
            self.line(f"if {name} < {size.code}:")
            self.depth += 1
        if not ops.is_const(low, 0):
            self.line(f"{name} += {self.index(low).code}")
        self.stmt(stmt.body)
        if smaller:
            self.line("pass")
            self.depth -= 1

    def _launch(self, stmt: Stmt) -> None:
        """A function for the kernel, and its launch. Memory goes by the same names inside, watched."""
        extents = self._kernel = bound_extents(stmt)
        before = self.memory.names()
        written = {name for data in _written(stmt) for name in self.memory.all_of(data)}
        name, memories = self.fresh("kernel"), sorted({m for m in self.memory.names() if m})
        self.line(f"def {name}(T, {', '.join(memories)}):")
        self.depth += 1
        nest, self._nest = self._nest, 0
        self.line("CELL = memoryview(bytearray(4)).cast('f')")
        self.stmt(stmt)
        self.line("yield from ()")  # a kernel without barriers is a generator too
        self._nest = nest
        self.depth -= 1
        self._kernel = None
        self.memory.forget_since(before)
        sizes = {
            kind: ", ".join(self._most(extents.get(f"{kind}.{axis}", [])) for axis in "xyz")
            for kind in ("blockIdx", "threadIdx")
        }
        seen = ", ".join(f"{memory!r}: {memory}" for memory in memories)
        self.line(f"launch({name!r}, {name}, ({sizes['blockIdx']}), ({sizes['threadIdx']}), {{{seen}}}, {written!r})")

    def _most(self, extents: list[PrimExpr]) -> str:
        codes = sorted({self.index(extent).code for extent in extents})
        return "1" if not codes else codes[0] if len(codes) == 1 else f"max({', '.join(codes)})"

    @property
    def in_generator(self) -> bool:
        return self._kernel is not None

    def allocate(self, var: n.Var, extents: tuple[PrimExpr, ...], dtype: str, scope: str = "global") -> None:
        if self._kernel is None or not scope.startswith("shared"):
            super().allocate(var, extents, dtype, scope)
            return
        self._sites += 1
        size = "*".join(f"({self.index(e).code})" for e in extents) or "1"
        name, width = self.fresh("m"), lanes_of(dtype)
        self.line(f"{name} = T.block.shared({self._sites}, {var.name!r}, {size}*{width}, {element_of(dtype)!r})")
        self.data(var, name, storage(dtype))

    # ------------------------------------------------------------------- what threads do together

    def raw(self, expr: PrimExpr, lane: int = 0) -> ValueCode:
        if isinstance(expr, n.Call) and self._kernel is not None:
            name = getattr(expr.op, "name", "").removeprefix("tir.")
            if name == "tvm_storage_sync":
                return self._sync(expr)
            if name in SHUFFLES:
                return self._shuffle(name, expr, lane)
            if name in ATOMICS:
                return self._atomic(name, expr)
            if name in _WARP_CALLS:
                self._sites += 1
                _WARP_CALLS[name](self, expr)
                return ValueCode("0", 0, 0)
            if name in interp_warpgroup.CALLS:
                self._sites += 1
                interp_warpgroup.CALLS[name](self, expr)
                return ValueCode("0", 0, 0)
        return super().raw(expr, lane)

    def _sync(self, call: n.Call) -> ValueCode:
        scope = call.args[0]
        assert isinstance(scope, n.StringImm)
        if scope.value == "global":
            raise LoweringError("a barrier for all blocks of a kernel is not possible", hint="use two kernels")
        self._sites += 1
        self.line(f"yield ({'warp' if scope.value == 'warp' else 'barrier'!r}, {self._sites})")
        return ValueCode("0", 0, 0)

    def _shuffle(self, name: str, call: n.Call, lane: int) -> ValueCode:
        _, value, argument, width, _ = call.args
        own, other, group = self.operand(value, lane), self.index(argument), self.index(width)
        self._sites += 1
        result = self.fresh("t")
        self.line(f"{result} = yield ({name!r}, {self._sites}, {own.code}, {other.code}, {group.code})")
        return ValueCode(result)

    def at(self, data: PrimExpr, offset: PrimExpr) -> tuple[str, str]:
        """The memory behind a data variable, and a name for an offset into it."""
        assert isinstance(data, n.Var)
        return self.memory.at_address(data), self.name_of(self.index(offset))

    @property
    def site(self) -> int:
        """Return the site of the call at hand."""
        return self._sites

    def number(self, value: PrimExpr) -> str:
        """The name of an integer."""
        return self.name_of(self.index(value))

    def together(self, kind: str, *values: str) -> str:
        """The name of what a warp's threads get for what each gives."""
        result = self.fresh("t")
        self.line(f"{result} = yield ({kind!r}, {self._sites}, {', '.join(values)})")
        return result

    def _atomic(self, name: str, call: n.Call) -> ValueCode:
        element, value = call.args
        assert isinstance(element, n.BufferLoad)
        if element_of(element.dtype) in ("float16", "bfloat16"):
            raise LoweringError(f"the interpreter has no {name} of {element.dtype}")
        added = self.name_of(self.value(value))
        memory, at = self.place(element.buffer, element.indices, 0)
        result = self.fresh("t")
        self.line(f"{result} = {memory}.update({at}, {added}, {name!r})")
        return ValueCode(result)


_HALVES = {"fp16": "float16_values", "bf16": "bfloat16_values"}  # what their bits stand for


def _mma(w: ThreadWriter, call: n.Call) -> None:
    whole = call.dtype == "int32"
    operands = []
    for kind, data, offset, count in (
        (call.args[3], call.args[6], call.args[7], 8),
        (call.args[4], call.args[8], call.args[9], 4),
    ):
        assert isinstance(kind, n.StringImm)
        memory, at = w.at(data, offset)
        one = f"{memory}[{at} + i]"
        operands.append(f"[{one if whole else f'{_HALVES[kind.value]}[{one}]'} for i in range({count * (1 + whole)})]")
    c, at_c = w.at(call.args[10], call.args[11])
    result = w.together("mma", *operands, f"[{c}[{at_c} + i] for i in range(4)]")
    w.line(f"for i in range(4): {c}[{at_c} + i] = {f'int({result}[i])' if whole else f'{result}[i]'}")


def _ldmatrix(w: ThreadWriter, call: n.Call) -> None:
    source, start = w.at(call.args[5], call.args[6])
    target, at = w.at(call.args[3], call.args[4])
    count = 128 // parse_dtype(call.dtype).bits
    row = f"[{source}[{start} + i] for i in range({count})]"
    result = w.together("ldmatrix", row, str(ops.as_int(call.args[0])))
    w.line(f"for i in range({count}): {target}[{at} + i] = {result}[i]")


def _cp_async(w: ThreadWriter, call: n.Call) -> None:
    target, at = w.at(call.args[0], call.args[1])
    source, start = w.at(call.args[2], call.args[3])
    count = (ops.as_int(call.args[4]) or 0) * 8 // parse_dtype(call.dtype).bits
    held = "True" if len(call.args) < 6 else w.value(call.args[5]).code
    w.line(f"T.copy_later({target}, {at}, {source}, {start}, {count}, {held})")


_WARP_CALLS: dict[str, Callable[[ThreadWriter, n.Call], None]] = {
    "ptx_mma": _mma,
    "ptx_ldmatrix": _ldmatrix,
    "ptx_cp_async": _cp_async,
    "ptx_commit_group": lambda w, call: w.line("T.commit()"),
    "ptx_wait_group": lambda w, call: w.line(f"T.wait({ops.as_int(call.args[0])})"),
}


def _written(kernel: Stmt) -> set[n.Var]:
    """The memory that a kernel stores to or updates."""
    found: set[n.Var] = set()
    for node in walk(kernel):
        match node:
            case n.BufferStore():
                found.add(node.buffer.data)
            case n.Call(args=(n.BufferLoad() as element, _)) if getattr(node.op, "name", "")[4:] in ATOMICS:
                found.add(element.buffer.data)
            case n.Call() if getattr(node.op, "name", "") in MEMORY:
                positions = MEMORY[node.op.name][1]  # type: ignore[union-attr]
                found.update(x for x in (node.args[i] for i in positions) if isinstance(x, n.Var))
            case _:
                pass
    return found


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    x, y = ops.as_int(a), ops.as_int(b)
    return a is b or (x is not None and x == y)
