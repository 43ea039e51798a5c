"""Frames of TensorIR functions.

What is collected while a `with` block runs, and what it becomes at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.ir_builder import closed
from compiler.tir.nodes import PrimExpr, Stmt
from tunefarm.script.ir_builder.base import Frame, IRBuilder, frame_of
from tunefarm.script.ir_builder.ir import ModuleFrame


class PrimFuncFrame(Frame):
    """The frame of a function's body."""

    def __init__(self, is_private: bool) -> None:
        super().__init__()
        self.private = is_private
        self.name: str | None = None
        self.params: list[n.Var] = []
        self.buffers: dict[n.Var, n.Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.allocated: list[n.Buffer] = []
        self.ret: str | None = None

    def close(self, builder: IRBuilder) -> None:
        body = closed(self.items)
        blocks = any(isinstance(node, n.BlockRealize) for node in walk(body))
        is_root = isinstance(body, n.BlockRealize) and not body.block.iter_vars
        if self.allocated or (blocks and not is_root):
            root = n.Block((), (), (), "root", body, None, tuple(self.allocated))
            body = n.BlockRealize((), ops.const(True), root)
        if self.name and not self.private:
            self.attrs.setdefault("global_symbol", self.name)
        made = n.PrimFunc(tuple(self.params), body, self.ret, self.buffers, self.attrs)
        if builder.frames and isinstance(builder.frames[-1], ModuleFrame):
            builder.frames[-1].declare(self.name or "main", made)
        else:
            builder.finish(made)


class WrapFrame(Frame):
    """The frame of statements that become part of one statement; `as` gives `given`."""

    def __init__(self, wrap: Callable[[Stmt], Any], given: Any = None) -> None:
        super().__init__()
        self._wrap = wrap
        self._given = given

    def value(self) -> Any:
        return self._given

    def close(self, builder: IRBuilder) -> None:
        emit(self._wrap(closed(self.items)))


class LoopFrame(WrapFrame):
    """The frame of a loop's body over `bounds`."""

    def __init__(self, wrap: Callable[[Stmt], Any], var: n.Var, bounds: n.Range) -> None:
        super().__init__(wrap, var)
        self.var = var
        self.bounds = bounds


class BlockFrame(Frame):
    """The frame of a block's body."""

    def __init__(self, name: str, no_realize: bool) -> None:
        super().__init__()
        self.name = name
        self.realized = not no_realize
        self.axes: list[n.IterVar] = []
        self.bindings: list[PrimExpr] = []
        self.predicate: PrimExpr | None = None
        self.accesses: dict[str, tuple[n.BufferRegion, ...]] = {}
        self.annotations: dict[str, Any] = {}
        self.allocated: list[n.Buffer] = []
        self.matched: list[n.MatchBufferRegion] = []
        self.init: Stmt | None = None

    def close(self, builder: IRBuilder) -> None:
        reads, writes = self.accesses.get("reads"), self.accesses.get("writes")
        if self.name == "root" and not self.axes and builder.frames and isinstance(builder.frames[-1], PrimFuncFrame):
            reads, writes = reads or (), writes or ()  # the block around a whole function accesses nothing itself
        parts = self.init, tuple(self.allocated), tuple(self.matched), self.annotations
        made = n.Block(tuple(self.axes), reads or (), writes or (), self.name, closed(self.items), *parts)
        if reads is None or writes is None:
            found = hooks.arithmetic().accesses(made)
            reads, writes = found[0] if reads is None else reads, found[1] if writes is None else writes
            made = n.Block(made.iter_vars, reads, writes, self.name, made.body, *parts)
        predicate = ops.const(True) if self.predicate is None else self.predicate
        emit(n.BlockRealize(tuple(self.bindings), predicate, made) if self.realized else made)


class InitFrame(Frame):
    """The frame of a reduction's first statements."""

    def close(self, builder: IRBuilder) -> None:
        block = frame_of(BlockFrame, "T.init")
        once("T.init", block.init)
        block.init = closed(self.items)


class IfFrame(Frame):
    """Holds `T.Then()` and `T.Else()`."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = ops.as_expr(condition)
        self.branches: dict[str, Stmt] = {}

    def close(self, builder: IRBuilder) -> None:
        if "then" not in self.branches or self.items:
            raise IRError("T.If holds a T.Then and maybe a T.Else, and no statements of its own")
        emit(n.IfThenElse(self.condition, self.branches["then"], self.branches.get("else")))


class BranchFrame(Frame):
    """One side of `T.If`."""

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = side

    def close(self, builder: IRBuilder) -> None:
        branches = frame_of(IfFrame, f"T.{self.side.capitalize()}").branches
        once(f"T.{self.side.capitalize()}", branches.get(self.side))
        branches[self.side] = closed(self.items)


class GridFrame(Frame):
    """A nest of loops; `as` gives their variables."""

    def __init__(self, loops: list[LoopFrame]) -> None:
        super().__init__()
        self.loops = loops

    def value(self) -> Any:
        found = [loop.value() for loop in self.loops]
        return found[0] if len(found) == 1 else found

    def close(self, builder: IRBuilder) -> None:
        body = closed(self.items)
        for loop in reversed(self.loops):
            body = loop._wrap(body)
        emit(body)


def emit(item: Any) -> None:
    """Put a statement into the frame that is open."""
    builder = IRBuilder.current()
    if not builder.frames:
        builder.finish(item)
    elif isinstance(builder.frames[-1], ModuleFrame):
        raise IRError("a module holds functions, no statements", hint="with T.prim_func(): …")
    else:
        builder.frames[-1].items.append(item)


def once(what: str, known: object) -> None:
    """Refuse a second statement of a kind that a frame has one of."""
    if known is not None:
        raise IRError(f"{what} stands once in its frame")
