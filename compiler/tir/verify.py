"""The rules that hold between stages of lowering.

`verify` walks a function once and raises IRError at the first broken rule, naming it:

    single-definition   a variable or buffer is defined in one place only
    scope               a variable is used where it has a value, a buffer where something allocates it
    rank                an access has one integer index for each dimension; only the last may be a vector
    dtype               values, bounds, conditions and masks have the dtypes their place asks for
    loop                a loop over hardware threads, and no other, names a thread
    block-domain        a block's domains start at 0, and each of its variables has one value
    block-name          block names are unique
    block-isolation     a block reads no loop variable from outside but through its own variables
    block-init          only a block with reduced variables has an init
    root                before lowering the body is the realisation of a root block
    no-blocks           after `LoweringStage.BLOCKS` there are none
    flat                from `LoweringStage.FLAT` on, accesses and allocations are one-dimensional
    no-vector-loops     a lowered function has vectors in place of vectorized loops
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from compiler.dtype import element_of, lanes_of, parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.visit import children
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, PrimExpr, Stmt


class LoweringStage(enum.IntEnum):
    """How far a function is lowered.
    Rules of an earlier stage also hold later, as far as they make sense there."""

    BLOCKS = 0  # as made by te or a script, and scheduled
    LOOPS = 1  # blocks turned into loops over shaped buffers
    FLAT = 2  # one-dimensional buffers
    LOWERED = 3  # vectorized loops turned into vectors: ready for code generation


def verify(func: n.PrimFunc, stage: LoweringStage = LoweringStage.BLOCKS) -> None:
    """Raise IRError, naming the rule, if `func` breaks a rule that holds at `stage`."""
    _Verifier(stage).function(func)


def broken(rule: str, message: str) -> NoReturn:
    raise IRError(f"{rule}: {message}", detail={"rule": rule})


def _integer(dtype: str) -> bool:
    return parse_dtype(dtype).is_int


class _Verifier:
    def __init__(self, stage: LoweringStage) -> None:
        self._stage = stage
        self._defined: set[n.Var | n.Buffer] = set()  # ever
        self._vars: set[n.Var] = set()  # in scope now
        self._hidden: set[n.Var] = set()  # loop variables outside the block at hand
        self._loops: list[n.Var] = []
        self._names: set[str] = set()

    # ------------------------------------------------------------------------------- scopes

    def function(self, func: n.PrimFunc) -> None:
        for param in func.params:
            self._define(param)
        for param, buffer in func.buffer_map.items():
            if param not in self._vars:
                broken("scope", f"buffer_map has {param.name}, which is no parameter")
            self._define_buffer(buffer)
        if self._stage is LoweringStage.BLOCKS:
            body = func.body
            if not isinstance(body, n.BlockRealize) or body.block.iter_vars:
                broken("root", f"the body is a {type(body).__name__}, not a root block")
        self.stmt(func.body)

    def _define(self, var: n.Var | n.Buffer) -> None:
        if var in self._defined:
            broken("single-definition", f"{var.name} is defined twice")
        self._defined.add(var)
        if isinstance(var, n.Var):
            self._vars.add(var)

    def _define_buffer(self, buffer: n.Buffer) -> None:
        """Check a buffer with memory of its own.
        Sizes that it is the first to name get their value from it."""
        self._define(buffer)
        if buffer.data not in self._vars:
            self._define(buffer.data)
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (*buffer.shape, *buffer.strides, *offset):
            if isinstance(expr, n.Var) and expr not in self._defined:
                self._define(expr)
            self.expr(expr)
        if buffer.strides and len(buffer.strides) != len(buffer.shape):
            broken("rank", f"buffer {buffer.name} has {len(buffer.shape)} dimensions, {len(buffer.strides)} strides")

    @contextmanager
    def _scope(self) -> Iterator[None]:
        before = set(self._vars)
        yield
        self._vars = before

    # -------------------------------------------------------------------------- expressions

    def expr(self, root: PrimExpr) -> None:
        if isinstance(root, n.IntImm | n.FloatImm | n.StringImm):
            return
        match root:
            case n.Var():
                self._use(root)
                return
            case n.Let():
                self.expr(root.value)
                self._same_dtype(root.var.dtype, root.value.dtype, f"the value of {root.var.name}")
                with self._scope():
                    self._define(root.var)
                    self.expr(root.body)
                return
            case n.BufferLoad():
                self._access(root.buffer, root.indices, root.predicate)
            case n.Select():
                self._condition(root.condition, "of a Select", lanes_of(root.dtype))
            case n.And() | n.Or() | n.Not():
                if element_of(root.a.dtype) != "bool":
                    broken("dtype", f"{type(root).__name__} of {root.a.dtype}, wanted bool")
            case n.ProducerLoad() | n.Reduce():
                broken("scope", f"a {type(root).__name__} of te is left in the function")
            case _:
                pass
        for child in children(root):
            assert isinstance(child, PrimExpr)
            self.expr(child)

    def _use(self, var: n.Var) -> None:
        if var in self._hidden:
            broken("block-isolation", f"{var.name} is a loop outside the block that reads it")
        if var not in self._vars:
            broken("scope", f"variable {var.name} is used where it has no value")

    def _same_dtype(self, a: str, b: str, what: str) -> None:
        if a != b:
            broken("dtype", f"{what}: {a} and {b}")

    def _condition(self, condition: PrimExpr, where: str, lanes: int = 1) -> None:
        if condition.dtype not in ("bool", with_lanes("bool", lanes)):
            broken("dtype", f"the condition {where} is {condition.dtype}")

    def _access(self, buffer: n.Buffer, indices: tuple[PrimExpr, ...], mask: PrimExpr | None) -> None:
        if buffer.data not in self._vars:
            broken("scope", f"buffer {buffer.name} is used where nothing allocates it")
        if len(indices) != len(buffer.shape):
            broken("rank", f"{buffer.name} has {len(buffer.shape)} dimensions, {len(indices)} indices")
        for index in indices[:-1]:
            if lanes_of(index.dtype) > 1:
                broken("rank", f"{buffer.name}: an index other than the last is a vector")
        for index in indices:
            if not _integer(element_of(index.dtype)):
                broken("dtype", f"{buffer.name}: an index is {index.dtype}")
        if mask is not None:
            self._condition(mask, f"on {buffer.name}", lanes_of(indices[-1].dtype) if indices else 1)
        if self._stage >= LoweringStage.FLAT and len(buffer.shape) != 1:
            broken("flat", f"buffer {buffer.name} has {len(buffer.shape)} dimensions")

    # --------------------------------------------------------------------------- statements

    def stmt(self, stmt: Stmt) -> None:
        rule = _RULES.get(type(stmt))
        if rule is None:
            broken("scope", f"no rule for a {type(stmt).__name__} statement")
        with self._scope():
            rule(self, stmt)

    def _for(self, loop: n.For) -> None:
        name = loop.loop_var.name
        for bound in (loop.min, loop.extent):
            self.expr(bound)
            if bound.dtype != loop.loop_var.dtype or not _integer(bound.dtype):
                broken("dtype", f"loop {name} is {loop.loop_var.dtype}, its bounds {bound.dtype}")
        if (loop.thread_binding is not None) != (loop.kind is ForKind.THREAD_BINDING):
            broken("loop", f"loop {name} is {loop.kind.value}, thread {loop.thread_binding}")
        if loop.kind is ForKind.VECTORIZED and self._stage is LoweringStage.LOWERED:
            broken("no-vector-loops", f"loop {name} is still vectorized")
        self._define(loop.loop_var)
        self._loops.append(loop.loop_var)
        self.stmt(loop.body)
        self._loops.pop()

    def _store(self, stmt: n.BufferStore) -> None:
        self._access(stmt.buffer, stmt.indices, stmt.predicate)
        lanes = lanes_of(stmt.indices[-1].dtype) if stmt.indices else 1
        wanted = with_lanes(stmt.buffer.dtype, lanes * lanes_of(stmt.buffer.dtype))
        if stmt.value.dtype != wanted:
            broken("dtype", f"{stmt.buffer.name} takes {wanted}, the value is {stmt.value.dtype}")
        self._children(stmt)

    def _children(self, stmt: Stmt) -> None:
        for child in children(stmt):
            if isinstance(child, PrimExpr):
                self.expr(child)
            else:
                assert isinstance(child, Stmt)
                self.stmt(child)

    def _branch(self, stmt: n.IfThenElse | n.While | n.AssertStmt) -> None:
        self._condition(stmt.condition, f"of {type(stmt).__name__}")
        self._children(stmt)

    def _let(self, stmt: n.LetStmt) -> None:
        self.expr(stmt.value)
        self._same_dtype(stmt.var.dtype, stmt.value.dtype, f"the value of {stmt.var.name}")
        self._define(stmt.var)
        self.stmt(stmt.body)

    def _attr(self, stmt: n.AttrStmt) -> None:
        self.expr(stmt.value)
        if stmt.attr_key == "thread_extent" and isinstance(stmt.node, n.IterVar):
            self._define(stmt.node.var)
        self.stmt(stmt.body)

    def _allocate(self, stmt: n.Allocate) -> None:
        if self._stage is LoweringStage.BLOCKS:
            broken("root", f"{stmt.buffer_var.name} is allocated by a statement, not by a block")
        if self._stage >= LoweringStage.FLAT and len(stmt.extents) != 1:
            broken("flat", f"{stmt.buffer_var.name} is allocated with {len(stmt.extents)} extents")
        for extent in stmt.extents:
            self.expr(extent)
            if not _integer(extent.dtype):
                broken("dtype", f"{stmt.buffer_var.name}: an extent is {extent.dtype}")
        self._condition(stmt.condition, f"of the allocation of {stmt.buffer_var.name}")
        self._define(stmt.buffer_var)
        self.stmt(stmt.body)

    def _declare(self, stmt: n.DeclBuffer) -> None:
        if stmt.buffer.data not in self._vars:
            broken("scope", f"buffer {stmt.buffer.name} is declared where nothing allocates its memory")
        self._define_buffer(stmt.buffer)
        self.stmt(stmt.body)

    # ------------------------------------------------------------------------------- blocks

    def _realize(self, stmt: n.BlockRealize) -> None:
        block = stmt.block
        name = block.name_hint
        if self._stage > LoweringStage.BLOCKS:
            broken("no-blocks", f"block {name} is left")
        if len(block.iter_vars) != len(stmt.iter_values):
            broken("block-domain", f"block {name}: {len(block.iter_vars)} variables, {len(stmt.iter_values)} values")
        for iter_var, value in zip(block.iter_vars, stmt.iter_values):
            self.expr(value)
            self._same_dtype(iter_var.dtype, value.dtype, f"block {name}: the value of {iter_var.var.name}")
        self._condition(stmt.predicate, f"of block {name}")
        # the predicate may speak of the block's variables, and of the loops around it
        self._vars.update(iter_var.var for iter_var in block.iter_vars)
        self.expr(stmt.predicate)
        self.block(block)

    def block(self, block: n.Block) -> None:
        name = block.name_hint
        if name in self._names:
            broken("block-name", f"two blocks are called {name}")
        self._names.add(name)
        if self._stage > LoweringStage.BLOCKS:
            broken("no-blocks", f"block {name} is left")
        hidden, self._hidden = self._hidden, self._hidden | set(self._loops)
        loops, self._loops = self._loops, []
        for iter_var in block.iter_vars:
            self._domain(name, iter_var)
            self._define(iter_var.var)
        reduced = any(iv.iter_type is n.IterType.COMM_REDUCE for iv in block.iter_vars)
        if block.init is not None and not reduced:
            broken("block-init", f"block {name} has an init but reduces nothing")
        for buffer in block.alloc_buffers:
            self._define_buffer(buffer)
        for match in block.match_buffers:
            self._region(name, match.source)
            self._define_buffer(match.buffer)
        for region in (*block.reads, *block.writes):
            self._region(name, region)
        for stmt in (block.init, block.body):
            if stmt is not None:
                self.stmt(stmt)
        self._hidden, self._loops = hidden, loops

    def _domain(self, name: str, iter_var: n.IterVar) -> None:
        dom = iter_var.dom
        if dom is None:
            broken("block-domain", f"block {name}: {iter_var.var.name} has no domain")
        if not (isinstance(dom.min, n.IntImm) and dom.min.value == 0):
            broken("block-domain", f"block {name}: the domain of {iter_var.var.name} starts at {dom.min}")
        self.expr(dom.extent)
        self._same_dtype(iter_var.dtype, dom.extent.dtype, f"block {name}: the domain of {iter_var.var.name}")

    def _region(self, name: str, region: n.BufferRegion) -> None:
        buffer = region.buffer
        if buffer.data not in self._vars:
            broken("scope", f"block {name}: buffer {buffer.name} is named where nothing allocates it")
        if len(region.region) != len(buffer.shape):
            broken("rank", f"block {name}: a region of {buffer.name} has {len(region.region)} dimensions")
        for dim in region.region:
            self.expr(dim.min)
            self.expr(dim.extent)


_RULES: dict[type, Callable[[_Verifier, Any], None]] = {
    n.For: _Verifier._for,
    n.BufferStore: _Verifier._store,
    n.IfThenElse: _Verifier._branch,
    n.While: _Verifier._branch,
    n.AssertStmt: _Verifier._branch,
    n.LetStmt: _Verifier._let,
    n.AttrStmt: _Verifier._attr,
    n.Allocate: _Verifier._allocate,
    n.DeclBuffer: _Verifier._declare,
    n.SeqStmt: _Verifier._children,
    n.Evaluate: _Verifier._children,
    n.BlockRealize: _Verifier._realize,
    n.Block: _Verifier.block,
}
