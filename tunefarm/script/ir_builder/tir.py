"""Functions that open frames of TensorIR: `with T.prim_func():`, loops, blocks and branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.errors import IRError
from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, IterType, Stmt
from compiler.tir.text import vocabulary
from compiler.tir.text.vocabulary import TypeName
from compiler.tir.visit import seq
from tunefarm.compatibility import refusing
from tunefarm.script.ir_builder.base import IRBuilder, frame_of
from tunefarm.script.ir_builder.tir_frames import (
    BlockFrame,
    BranchFrame,
    GridFrame,
    IfFrame,
    InitFrame,
    LoopFrame,
    PrimFuncFrame,
    WrapFrame,
    emit,
    once,
)

Buffer = buffer = n.decl_buffer


_refuse = refusing(__name__)


def __getattr__(name: str) -> Any:
    found = None if name.startswith("_") else vocabulary.lookup(name)
    return _refuse(name) if found is None else found


# -------------------------------------------------------------------------------- functions


def prim_func(is_private: bool = False) -> PrimFuncFrame:
    """A frame that makes a PrimFunc."""
    return PrimFuncFrame(is_private)


def func_name(name: str) -> None:
    """Name the function."""
    frame_of(PrimFuncFrame, "T.func_name").name = name


def func_ret(ret_type: Any) -> None:
    """Say what the function returns."""
    frame_of(PrimFuncFrame, "T.func_ret").ret = str(getattr(ret_type, "dtype", ret_type))


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Give the function attributes."""
    frame_of(PrimFuncFrame, "T.func_attr").attrs.update(attrs)


def arg(name: str, obj: Any) -> Any:
    """A parameter: a buffer, or a variable such as `T.int32()`. Gives it with its name."""
    func = frame_of(PrimFuncFrame, "T.arg")
    obj = obj() if isinstance(obj, TypeName) else obj
    if isinstance(obj, n.Buffer):
        var, named = (
            n.Var(f"var_{name}", "handle"),
            n.decl_buffer(obj.shape, obj.dtype, name, strides=obj.strides or None, scope=obj.scope),
        )
        func.buffers[var] = named
        func.params.append(var)
        return named
    if not isinstance(obj, n.Var):
        raise IRError(f"a parameter is a buffer or a variable, not a {type(obj).__name__}")
    made = type(obj)(name, obj.dtype)
    func.params.append(made)
    return made


def match_buffer(param: Any, shape: Any, dtype: str = "float32", **options: Any) -> n.Buffer:
    """The buffer of a parameter, or a view of a region."""
    made = n.decl_buffer(shape, dtype, getattr(param, "name", "buffer"), **options)
    func = frame_of(PrimFuncFrame, "T.match_buffer")
    if isinstance(param, n.Var):
        func.buffers[param] = made
    else:
        frame_of(BlockFrame, "T.match_buffer").matched.append(n.MatchBufferRegion(made, _region(param)))
    return made


def alloc_buffer(shape: Any, dtype: str = "float32", **options: Any) -> n.Buffer:
    """Memory of the block at hand, or of the function."""
    made = n.decl_buffer(shape, dtype, options.pop("name", "buffer"), **options)
    holder = next(f for f in reversed(IRBuilder.current().frames) if isinstance(f, BlockFrame | PrimFuncFrame))
    holder.allocated.append(made)
    return made


def buffer_store(buffer: n.Buffer, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store an element. Raises IRError for a predicate: lanes that are not stored are those of `T.If`."""
    if predicate is not None:
        raise IRError("T.buffer_store stores whole elements", hint="put it in a T.If")
    given = ops.as_expr(value)
    given = given if given.dtype == buffer.dtype else ops.cast(buffer.dtype, given)
    point = tuple(map(ops.as_expr, indices if isinstance(indices, list | tuple) else [indices]))
    emit(n.BufferStore(buffer, given, point))


def evaluate(value: Any) -> None:
    """Evaluate an expression for its effect."""
    emit(n.Evaluate(ops.as_expr(value)))


# ----------------------------------------------------------------------------------- blocks


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """A frame that makes a block."""
    return BlockFrame(name, no_realize)


def init() -> InitFrame:
    """A frame that makes the initialisation of a block."""
    return InitFrame()


def where(predicate: Any) -> None:
    """Run the block at hand only where `predicate` holds."""
    block = frame_of(BlockFrame, "T.where")
    once("T.where", block.predicate)
    block.predicate = ops.as_expr(predicate)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotate the block at hand."""
    frame_of(BlockFrame, "T.block_attr").annotations.update(attrs)


def reads(*buffer_slices: Any) -> None:
    """Say what the block at hand reads."""
    _access("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """Say what the block at hand writes."""
    _access("writes", buffer_slices)


def _access(which: str, buffer_slices: tuple[Any, ...]) -> None:
    accesses = frame_of(BlockFrame, f"T.{which}").accesses
    once(f"T.{which}", accesses.get(which))
    accesses[which] = tuple(map(_region, _flat(buffer_slices)))


def _flat(items: tuple[Any, ...]) -> list[Any]:
    return list(items[0]) if len(items) == 1 and isinstance(items[0], list | tuple) else list(items)


def _region(given: Any) -> n.BufferRegion:
    match given:
        case n.BufferRegion():
            return given
        case n.BufferLoad():
            return n.BufferRegion(
                given.buffer, tuple(n.Range(index, ops.const(1, index.dtype)) for index in given.indices)
            )
        case n.Buffer():
            return n.BufferRegion(given, tuple(n.Range(ops.const(0, size.dtype), size) for size in given.shape))
    raise IRError(f"a region is an element, a slice or a buffer, not a {type(given).__name__}")


class axis:
    """Axes of the block at hand: `T.axis.spatial(extent, value)`, and `T.axis.remap("SR", [i, k])`."""

    @staticmethod
    def _of(kind: IterType, dom: Any, binding: Any) -> n.Var:
        value = ops.as_expr(binding)
        low, extent = (0, dom)
        if isinstance(dom, list | tuple):
            low, extent = dom[0], ops.sub(ops.as_expr(dom[1]), ops.as_expr(dom[0]))
        var = n.Var("v", value.dtype)
        bounds = (
            dom
            if isinstance(dom, n.Range)
            else n.Range(ops.cast(value.dtype, ops.as_expr(low)), ops.cast(value.dtype, ops.as_expr(extent)))
        )
        parts = frame_of(BlockFrame, "T.axis")
        parts.axes.append(n.IterVar(bounds, var, kind))
        parts.bindings.append(value)
        return var

    @staticmethod
    def spatial(dom: Any, binding: Any, dtype: str = "int32") -> n.Var:
        """An axis whose elements are independent."""
        return axis._of(IterType.DATA_PAR, dom, binding)

    @staticmethod
    def reduce(dom: Any, binding: Any, dtype: str = "int32") -> n.Var:
        """An axis that is reduced over."""
        return axis._of(IterType.COMM_REDUCE, dom, binding)

    @staticmethod
    def scan(dom: Any, binding: Any, dtype: str = "int32") -> n.Var:
        """An axis whose order matters."""
        return axis._of(IterType.ORDERED, dom, binding)

    @staticmethod
    def opaque(dom: Any, binding: Any, dtype: str = "int32") -> n.Var:
        """An axis of which nothing is known."""
        return axis._of(IterType.OPAQUE, dom, binding)

    @staticmethod
    def remap(kinds: str, bindings: list[n.Var], dtype: str = "int32") -> Any:
        """An axis for each loop, of the kind that its letter says: S, R, O or Q."""
        made = []
        for kind, loop in zip(kinds, bindings, strict=True):
            make = {"S": axis.spatial, "R": axis.reduce, "O": axis.scan, "Q": axis.opaque}.get(kind)
            if make is None:
                raise IRError(f"T.axis.remap: no axis is of kind {kind!r}", hint="kinds are S, R, O and Q")
            made.append(make(_bounds(loop), loop))
        return made[0] if len(made) == 1 else made

    S, R = spatial, reduce


# ------------------------------------------------------------------------------------ loops


def _bounds(var: n.Var) -> n.Range:
    """The bounds of a variable's loop: one of those that are open."""
    for found in IRBuilder.current().frames:
        loops = found.loops if isinstance(found, GridFrame) else [found]
        for loop in loops:
            if isinstance(loop, LoopFrame) and loop.var is var:
                return loop.bounds
    raise IRError("T.axis.remap takes the variables of the loops around the block")


def _loop(kind: ForKind, start: Any, stop: Any, annotations: Any, thread: str | None = None) -> LoopFrame:
    low, high = ops.match_types(start if stop is not None else 0, start if stop is None else stop)
    extent = hooks.arithmetic().simplify(ops.sub(high, low))
    var = n.Var("v", low.dtype)
    binding = None if thread is None else n.IterVar(None, n.Var(thread, low.dtype), IterType.THREAD_INDEX, thread)
    bounds = n.Range(low, extent)

    def wrap(body: Stmt) -> Stmt:
        return n.For(var, bounds.min, bounds.extent, kind, body, binding, dict(annotations or {}))

    return LoopFrame(wrap, var, bounds)


def serial(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopFrame:
    """A loop whose rounds follow each other."""
    return _loop(ForKind.SERIAL, start, stop, annotations)


def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopFrame:
    """A loop whose rounds run on several threads."""
    return _loop(ForKind.PARALLEL, start, stop, annotations)


def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopFrame:
    """A loop that becomes vector instructions."""
    return _loop(ForKind.VECTORIZED, start, stop, annotations)


def unroll(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopFrame:
    """A loop whose rounds are written out."""
    return _loop(ForKind.UNROLLED, start, stop, annotations)


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Mapping[str, Any] | None = None
) -> LoopFrame:
    """A loop over the threads of a GPU."""
    if isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        raise IRError('T.thread_binding names a thread: thread="threadIdx.x"')
    return _loop(ForKind.THREAD_BINDING, start, stop, annotations, thread)


def grid(*extents: Any) -> GridFrame:
    """A nest of loops from 0."""
    return GridFrame([serial(extent) for extent in extents])


# ------------------------------------------------------------------------ other statements


def If(condition: Any) -> IfFrame:
    """A branch: `with T.If(c): with T.Then(): …`."""
    return IfFrame(condition)


def Then() -> BranchFrame:
    """Return what `T.If` does where its condition holds."""
    return BranchFrame("then")


def Else() -> BranchFrame:
    """Return what `T.If` does where its condition does not hold."""
    return BranchFrame("else")


def While(condition: Any) -> WrapFrame:
    """A loop that ends when its condition does not hold."""
    test = ops.as_expr(condition)
    return WrapFrame(lambda body: n.While(test, body))


def Assert(condition: Any, message: Any) -> WrapFrame:
    """Return what must hold for the statements inside."""
    test, text = ops.as_expr(condition), ops.as_expr(message)
    return WrapFrame(lambda body: n.AssertStmt(test, text, body))


def Let(expr: Any, where: Mapping[n.Var, Any]) -> n.PrimExpr:
    """An expression in which variables have values: `T.Let(x + 1, where={x: 2})`."""
    made = ops.as_expr(expr)
    for var, value in reversed([*where.items()]):
        made = n.Let(var, ops.as_expr(value), made)
    return made


def let(v: n.Var, value: Any, body: Any) -> n.PrimExpr:
    """An expression in which a variable has a value."""
    return n.Let(v, ops.as_expr(value), ops.as_expr(body))


def LetStmt(value: Any, type_annotation: Any = None, *, var: n.Var | None = None) -> WrapFrame:
    """A variable with a value for the statements inside; `as` gives it."""
    given = ops.as_expr(value)
    made = n.Var("v", given.dtype) if var is None else var
    return WrapFrame(lambda body: n.LetStmt(made, given, body), made)


def attr(node: Any, attr_key: str, value: Any) -> WrapFrame:
    """An attribute of the statements inside."""
    given = ops.as_expr(value)
    return WrapFrame(lambda body: n.AttrStmt(node, attr_key, given, body))


def allocate(
    extents: Any, dtype: str, scope: str = "global", condition: Any = None, annotations: Any = None
) -> WrapFrame:
    """Memory for the statements inside; `as` gives its variable."""
    var, sizes = n.Var("v", "handle"), tuple(map(ops.as_expr, extents))
    test = ops.const(True) if condition is None else ops.as_expr(condition)
    return WrapFrame(lambda body: n.Allocate(var, dtype, sizes, test, body, scope, dict(annotations or {})), var)


def allocate_const(data: Any, dtype: str, extents: Any, annotations: Any = None) -> WrapFrame:
    """Memory that is filled with values where it is made; `as` gives its variable."""
    values = np.asarray(data).reshape(-1).tolist()
    buffer, sizes = n.decl_buffer((len(values),), dtype, "v"), tuple(map(ops.as_expr, extents))
    stores = [n.BufferStore(buffer, ops.const(value, dtype), (ops.const(i),)) for i, value in enumerate(values)]
    options = dict(annotations or {})
    return WrapFrame(
        lambda body: n.Allocate(buffer.data, dtype, sizes, ops.const(True), seq(*stores, body), buffer.scope, options),
        buffer.data,
    )


def decl_buffer(shape: Any, dtype: str = "float32", data: n.Var | None = None, **options: Any) -> WrapFrame:
    """A buffer for the statements inside: a view of `data`, or memory of its own; `as` gives it."""
    made = n.decl_buffer(shape, dtype, "buffer", data=data, **options)
    if data is not None:
        return WrapFrame(lambda body: n.DeclBuffer(made, body), made)
    return WrapFrame(lambda body: n.Allocate(made.data, dtype, made.shape, ops.const(True), body, made.scope, {}), made)


def launch_thread(thread: Any, extent: Any) -> WrapFrame:
    """A thread axis around the statements inside; `as` gives its variable."""
    size = ops.as_expr(extent)
    if isinstance(thread, str):
        thread = n.IterVar(None, n.Var("v", size.dtype), IterType.THREAD_INDEX, thread)
    return WrapFrame(lambda body: n.AttrStmt(thread, "thread_extent", size, body), thread.var)


def env_thread(thread_tag: str, dtype: str = "int32") -> n.IterVar:
    """A thread axis, for `launch_thread`."""
    return n.IterVar(None, n.Var("v", dtype), IterType.THREAD_INDEX, thread_tag)
