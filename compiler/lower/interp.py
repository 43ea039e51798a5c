"""Run a function at any stage of lowering on numpy arrays: the oracle for schedules, passes and code generation.

The function is turned into Python source once and executed. Every access is checked against its buffer's shape,
temporaries start out as NaN, float arithmetic is rounded in its own type and integers wrap around.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.lower import interp_support as support
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.visit import walk

_FILE = "<interpreted function>"
_MAX_LOOPS = 12  # Python compiles at most 20 loops in one another, so a function starts after so many
_COMPARE = {n.EQ: "==", n.NE: "!=", n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">="}
_ARITHMETIC = {n.Add: "+", n.Sub: "-", n.Mul: "*", n.FloorDiv: "//", n.FloorMod: "%"}


def run(func: n.PrimFunc, *args: Any) -> None:
    """Execute `func` on numpy arrays (buffers) and Python numbers (scalars), in the order of its params.

    Outputs are written in place. Raises OutOfBounds, AssertionFailed, or LoweringError for arguments that
    don't fit and constructs that have no meaning on one thread.
    """
    compile_func(func)(*args)


def compile_func(func: n.PrimFunc) -> Callable[..., None]:
    """`func` as a Python function; worth keeping when it runs more than once."""
    generator = _Generator()
    source = generator.function(func)
    scope: dict[str, Any] = {**generator.constants, "S": support, "np": np}
    exec(compile(source, _FILE, "exec"), scope)  # source is our own output
    body = scope["body"]

    def call(*args: Any) -> None:
        if len(args) != len(func.params):
            raise LoweringError(f"the function takes {len(func.params)} arguments, got {len(args)}")
        with np.errstate(all="ignore"):
            try:
                body(*_bind(func, args))
            except LoweringError as error:
                raise _with_loop_values(error, generator.loop_names) from None

    return call


def _bind(func: n.PrimFunc, args: tuple[Any, ...]) -> list[Any]:
    bound = []
    for i, (param, arg) in enumerate(zip(func.params, args)):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            bound.append(arg)
            continue
        shape = tuple(ops.as_int(d) for d in buffer.shape)
        wanted = support.numpy_dtype(buffer.dtype)
        if not isinstance(arg, np.ndarray) or arg.dtype != wanted:
            raise LoweringError(f"argument {i} ({buffer.name}) must be a numpy array of {wanted}")
        if len(shape) != arg.ndim or any(s is not None and s != d for s, d in zip(shape, arg.shape)):
            raise LoweringError(f"argument {i} ({buffer.name}) has shape {arg.shape}, wanted {shape}")
        if not arg.flags.c_contiguous:
            raise LoweringError(f"argument {i} ({buffer.name}) is not contiguous")
        bound.append(arg)
    return bound


def _with_loop_values(error: LoweringError, loop_names: Mapping[str, str]) -> LoweringError:
    """The error with the loop variables' values at the failing place added."""
    values: dict[str, Any] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == _FILE and frame.f_code.co_name.startswith("body"):
            values |= {loop_names[k]: v for k, v in frame.f_locals.items() if k in loop_names}
    where = ", ".join(f"{name}={value}" for name, value in values.items())
    return type(error)(f"{error.message} (at {where or 'no loop'})", hint=error.hint, detail=values)


class _Generator:
    """Writes the Python source of one function."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self.loop_names: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._loops = 0
        self._vars: dict[n.Var, str] = {}
        self._buffers: dict[n.Buffer, str] = {}
        self._memory: dict[n.Var, str] = {}  # flat array behind a data pointer
        self._counter = 0

    # -- names and lines

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def _var(self, var: n.Var) -> str:
        name = self._vars.get(var)
        if name is None:
            name = self._vars[var] = self._fresh("v")
            self.loop_names[name] = var.name
        return name

    def _constant(self, value: Any) -> str:
        name = self._fresh("k")
        self.constants[name] = value
        return name

    def _buffer(self, buffer: n.Buffer) -> str:
        """The array of `buffer`, made on first use as a view of its data pointer's memory."""
        name = self._buffers.get(buffer)
        if name is None:
            raise LoweringError(f"buffer {buffer.name} is used outside the scope that allocates it")
        return name

    # -- functions

    def function(self, func: n.PrimFunc) -> str:
        params = []
        views = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                params.append(self._var(param))
            else:
                name = self._buffers[buffer] = self._fresh("b")
                self._memory[buffer.data] = name
                params.append(name)
                views.append((buffer, name))
        self._line(f"def body({', '.join(params)}):")
        self._depth += 1
        for buffer, name in views:
            for axis, dim in enumerate(buffer.shape):
                if isinstance(dim, n.Var) and dim not in self._vars:
                    self._line(f"{self._var(dim)} = {name}.shape[{axis}]")
        self._make_views(func.body)
        self._stmt(func.body)
        return "\n".join(self._lines)

    def _make_views(self, scope: n.Stmt) -> None:
        """Arrays for buffers under `scope` that look at memory known so far."""
        for node in walk(scope):
            if isinstance(node, n.BufferLoad | n.BufferStore):
                buffer = node.buffer
                if buffer not in self._buffers and buffer.data in self._memory:
                    name = self._buffers[buffer] = self._fresh("b")
                    shape = "".join(f"{self._expr(d)}, " for d in buffer.shape)
                    self._line(f"{name} = {self._memory[buffer.data]}.reshape(({shape}))")

    def _allocate(self, buffer: n.Buffer) -> None:
        name = self._buffers[buffer] = self._fresh("b")
        self._memory[buffer.data] = name
        shape = "".join(f"{self._expr(d)}, " for d in buffer.shape)
        self._line(f"{name} = S.poison(({shape}), {buffer.dtype!r})")

    # -- statements

    def _block_of(self, stmt: n.Stmt, in_function: bool = False) -> None:
        if in_function:
            self._depth += 1
            name = self._fresh("body")
            self._line(f"def {name}():")
            self._block_of(stmt)
            self._line(f"{name}()")
            self._depth -= 1
            return
        self._depth += 1
        before = len(self._lines)
        self._stmt(stmt)
        if len(self._lines) == before:
            self._line("pass")
        self._depth -= 1

    def _stmt(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.SeqStmt():
                for item in stmt.seq:
                    self._stmt(item)
            case n.For():
                low = self._expr(stmt.min)
                self._line(f"for {self._var(stmt.loop_var)} in range({low}, {low} + {self._expr(stmt.extent)}):")
                self._loops += 1
                self._block_of(stmt.body, in_function=self._loops % _MAX_LOOPS == 0)
                self._loops -= 1
            case n.BlockRealize():
                self._realize(stmt)
            case n.BufferStore():
                self._store(stmt)
            case n.IfThenElse():
                self._line(f"if {self._expr(stmt.condition)}:")
                self._block_of(stmt.then_case)
                if stmt.else_case is not None:
                    self._line("else:")
                    self._block_of(stmt.else_case)
            case n.Allocate():
                name = self._memory[stmt.buffer_var] = self._fresh("b")
                size = " * ".join(f"({self._expr(e)})" for e in stmt.extents) or "1"
                lanes = lanes_of(stmt.dtype)
                self._line(f"{name} = S.poison(({size} * {lanes},), {element_of(stmt.dtype)!r})")
                self._make_views(stmt.body)
                self._stmt(stmt.body)
            case n.LetStmt():
                self._line(f"{self._var(stmt.var)} = {self._expr(stmt.value)}")
                self._stmt(stmt.body)
            case n.AttrStmt():
                self._stmt(stmt.body)
            case n.AssertStmt():
                message = stmt.message.value if isinstance(stmt.message, n.StringImm) else "assertion failed"
                self._line(f"if not ({self._expr(stmt.condition)}): raise S.AssertionFailed({message!r})")
                self._stmt(stmt.body)
            case n.While():
                self._line(f"while {self._expr(stmt.condition)}:")
                self._block_of(stmt.body)
            case n.Evaluate():
                self._evaluate(stmt.value)
            case _:
                raise LoweringError(f"the interpreter has no rule for {type(stmt).__name__}")

    def _evaluate(self, value: n.PrimExpr) -> None:
        if isinstance(value, n.Call):
            name = getattr(value.op, "name", "")
            if name == "tir.prefetch":
                return
            if name == "tir.tvm_storage_sync":
                raise LoweringError("a barrier between threads has no meaning on one thread")
        self._line(self._expr(value))

    def _realize(self, realize: n.BlockRealize) -> None:
        block = realize.block
        if block.match_buffers:
            raise LoweringError(f"block {block.name_hint}: the interpreter has no rule for match_buffer")
        for iv, value in zip(block.iter_vars, realize.iter_values):
            self._line(f"{self._var(iv.var)} = {self._expr(value)}")
        guarded = not ops.is_const(realize.predicate, 1)
        if guarded:
            self._line(f"if {self._expr(realize.predicate)}:")
            self._depth += 1
        for buffer in block.alloc_buffers:
            self._allocate(buffer)
        if block.init is not None:
            reduced = [iv for iv in block.iter_vars if iv.iter_type == n.IterType.COMM_REDUCE and iv.dom is not None]
            first = " and ".join(f"{self._var(iv.var)} == {self._expr(iv.dom.min)}" for iv in reduced if iv.dom)
            self._line(f"if {first or 'True'}:")
            self._block_of(block.init)
        self._stmt(block.body)
        if guarded:
            self._depth -= 1

    def _store(self, stmt: n.BufferStore) -> None:
        name, value = self._buffer(stmt.buffer), self._expr(stmt.value)
        indices = ", ".join(map(self._expr, stmt.indices))
        if stmt.predicate is not None:
            mask = self._expr(stmt.predicate)
            self._line(f"S.store_masked({name}, {stmt.buffer.name!r}, {value}, {mask}, {indices})")
        else:
            self._line(f"S.store({name}, {stmt.buffer.name!r}, {value}, {indices})")

    # -- expressions

    def _expr(self, expr: n.PrimExpr) -> str:
        match expr:
            case n.Var():
                return self._var(expr)
            case n.IntImm():
                return repr(bool(expr.value)) if expr.dtype == "bool" else f"({expr.value})"
            case n.FloatImm():
                return self._constant(self._float(expr))
            case n.StringImm():
                return repr(expr.value)
            case n.BinaryOp():
                return self._binary(expr)
            case n.Not():
                inner = self._expr(expr.a)
                return f"(~{inner})" if lanes_of(expr.dtype) > 1 else f"(not {inner})"
            case n.Cast():
                return f"S.cast({self._expr(expr.value)}, {expr.value.dtype!r}, {expr.dtype!r})"
            case n.Select():
                parts = (expr.condition, expr.true_value, expr.false_value)
                return f"S.select({', '.join(map(self._expr, parts))})"
            case n.Ramp():
                lanes = self._constant(np.arange(expr.lanes))
                return f"({self._expr(expr.base)} + {self._expr(expr.stride)} * {lanes})"
            case n.Broadcast():
                dtype = support.numpy_dtype(expr.dtype).name
                return f"np.full({expr.lanes}, {self._expr(expr.value)}, {dtype!r})"
            case n.Let():
                body, value = self._expr(expr.body), self._expr(expr.value)
                return f"(lambda {self._var(expr.var)}: {body})({value})"
            case n.BufferLoad():
                return self._load(expr)
            case n.Call():
                return self._call(expr)
        raise LoweringError(f"the interpreter has no rule for {type(expr).__name__}")

    def _float(self, expr: n.FloatImm) -> Any:
        value = support.numpy_dtype(expr.dtype).type(expr.value)
        return support.round_bfloat16(value) if parse_dtype(expr.dtype).code == "bfloat" else value

    def _binary(self, expr: n.BinaryOp) -> str:
        kind = type(expr)
        a, b = self._expr(expr.a), self._expr(expr.b)
        vector = lanes_of(expr.dtype) > 1
        if kind in _COMPARE:
            return f"({a} {_COMPARE[kind]} {b})"
        if isinstance(expr, n.And):
            return f"({a} & {b})" if vector else f"({a} and {b})"
        if isinstance(expr, n.Or):
            return f"({a} | {b})" if vector else f"({a} or {b})"
        if isinstance(expr, n.Min):
            return f"S.lowest({a}, {b})"
        if isinstance(expr, n.Max):
            return f"S.highest({a}, {b})"
        parsed = parse_dtype(expr.dtype)
        if isinstance(expr, n.Div):
            text = f"({a} / {b})" if parsed.is_float else f"S.truncdiv({a}, {b})"
        elif isinstance(expr, n.Mod):
            text = f"S.truncmod({a}, {b})"
        elif parsed.is_float and isinstance(expr, n.FloorDiv):
            text = f"np.floor({a} / {b})"
        else:
            text = f"({a} {_ARITHMETIC[kind]} {b})"
        if parsed.code == "bfloat":
            return f"S.round_bfloat16({text})"
        if not parsed.is_float and not vector and _touches_data(expr):
            return f"{self._wrapper(expr.dtype)}({text})"
        return text

    def _wrapper(self, dtype: str) -> str:
        name = f"wrap_{dtype}"
        self.constants.setdefault(name, support.wrapper(dtype))
        return name

    def _load(self, load: n.BufferLoad) -> str:
        name = self._buffer(load.buffer)
        indices = ", ".join(map(self._expr, load.indices))
        if load.predicate is not None:
            mask = self._expr(load.predicate)
            return f"S.load_masked({name}, {load.buffer.name!r}, {mask}, {indices})"
        text = f"S.load({name}, {load.buffer.name!r}, {indices})"
        parsed = parse_dtype(load.dtype)
        if parsed.lanes == 1 and not parsed.is_float:
            return f"bool({text})" if parsed.code == "bool" else f"int({text})"
        return text

    def _call(self, call: n.Call) -> str:
        name = getattr(call.op, "name", "").removeprefix("tir.")
        args = [self._expr(a) for a in call.args]
        if name == "if_then_else":
            if lanes_of(call.args[0].dtype) > 1:
                return f"S.select({', '.join(args)})"
            return f"({args[1]} if {args[0]} else {args[2]})"
        if name not in support.INTRINSICS:
            raise LoweringError(f"the interpreter has no rule for the intrinsic {name or call.op}")
        text = f"S.INTRINSICS[{name!r}]({', '.join(args)})"
        parsed = parse_dtype(call.dtype)
        if parsed.lanes == 1 and parsed.is_int:
            return f"{self._wrapper(call.dtype)}(int({text}))"
        if parsed.lanes == 1 and parsed.code == "bool":
            return f"bool({text})"
        return f"S.round_bfloat16({text})" if parsed.code == "bfloat" else text


def _touches_data(expr: n.PrimExpr) -> bool:
    """Whether a value from memory or a conversion takes part: index arithmetic alone never overflows."""
    return any(isinstance(node, n.BufferLoad | n.Cast | n.Call) for node in walk(expr))
