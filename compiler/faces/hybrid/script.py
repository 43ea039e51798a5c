"""`te.hybrid.script`: a Python function as an operation on tensors.

    @script
    def outer(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
        for i in parallel(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

Called with te tensors it gives te tensors; called with numpy arrays it runs in Python.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from compiler.errors import IRError
from compiler.faces.hybrid import runtime
from compiler.faces.hybrid.reader import Inlined, Reader, Writing
from compiler.ir.base import Node
from compiler.ir.visit import walk
from compiler.script import source
from compiler.te.extern import ExternOp
from compiler.te.tensor import Tensor
from compiler.te.where import at, caller_span
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ir_builder import closed


@dataclass(frozen=True, eq=False, repr=False)
class HybridOp(ExternOp):
    """An operation that a hybrid function computes.
    Its loops are its own: a schedule does not change them."""

    def reading(self, inputs: tuple[Tensor, ...]) -> HybridOp:
        """The same computation of other inputs."""
        return replace(self, inputs=inputs)


class HybridFunction(Inlined):
    """A decorated function. Tensors as arguments give tensors; arrays are computed with at once."""

    def __init__(self, func: FunctionType) -> None:
        self.func = func
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any) -> Any:
        """Return the outputs: one, or a list of several. Raises ScriptError at a line that cannot be read."""
        if any(map(_is_symbolic, args)):
            return operation(self, args)
        return runtime.run(self.func, args)

    def definition(self) -> tuple[source.Source, ast.FunctionDef, Mapping[str, Any]]:
        try:
            lines, first = inspect.getsourcelines(self.func)
        except OSError as error:
            raise source.ScriptError(
                f"the source of {self.func.__name__} is not available: {error}",
                hint="write it in a file, or give its text to te.hybrid.source_to_op",
            ) from None
        text = "\n" * (first - 1) + textwrap.dedent("".join(lines))
        where = replace(source.parse(self.func.__code__.co_filename, text), of_program=True)
        captured = {**self.func.__globals__, **inspect.getclosurevars(self.func).nonlocals}
        return where, _first(where), captured


@dataclass(frozen=True, slots=True)
class WrittenFunction(Inlined):
    """A hybrid function given as text."""

    text: str
    captured: Mapping[str, Any]

    def definition(self) -> tuple[source.Source, ast.FunctionDef, Mapping[str, Any]]:
        where = replace(source.parse("<hybrid function>", self.text), of_program=True)
        return where, _first(where), self.captured


def _first(where: source.Source) -> ast.FunctionDef:
    """The definition that a text begins with."""
    for node in where.tree.body:
        if isinstance(node, ast.FunctionDef):
            return node
    raise source.ScriptError("the text of a hybrid function has no definition", hint="it begins with `def`")


def script(pyfunc: FunctionType) -> HybridFunction:
    """Decorator: the function makes a te operation of tensors, and still computes with arrays."""
    return HybridFunction(pyfunc)


def decorate(func: Callable[..., Any], fwrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `fwrapped(func, *args)` and keeps the name of `func`."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fwrapped(func, *args, **kwargs)

    return wrapped


def source_to_op(
    src: ast.AST | str,
    args: Sequence[Any],
    symbols: Mapping[str, Any] | None = None,
    closure_vars: Mapping[str, Any] | None = None,
) -> Any:
    """Return the tensors that a hybrid function, given as text or as Python's tree, makes of `args`.

    `symbols` and `closure_vars` are the values of names around the function. Raises ScriptError.
    """
    text = src if isinstance(src, str) else ast.unparse(src)
    return operation(WrittenFunction(textwrap.dedent(text), {**(symbols or {}), **(closure_vars or {})}), args)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(_is_symbolic, value))
    return isinstance(value, Node)


def operation(function: Inlined, args: Sequence[Any]) -> Any:
    """Return the tensors that a hybrid function makes of tensors, expressions and numbers."""
    span = caller_span()
    where, node, captured = function.definition()
    buffers: dict[Tensor, n.Buffer] = {}

    def given(value: Any) -> Any:
        if isinstance(value, Tensor):
            if value not in buffers:
                buffers[value] = n.decl_buffer(value.shape, value.dtype, value.name)
            return buffers[value]
        if isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(map(given, value))
        if isinstance(value, bool | int | float | str):
            return value
        return value if isinstance(value, n.Buffer) else ops.as_expr(value)

    writing = Writing(node.name)
    reader = Reader(where, node, captured, tuple(map(given, args)), writing)
    reader.read()
    returned = reader.returned
    outputs = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    body = closed(writing.open[0])
    allocated = writing.frames[0].allocated
    for output in outputs:
        if output not in allocated:
            where.fail(node, "a hybrid function returns what `output_tensor` made, outside of parallel loops")
    used = {item.buffer for item in walk(body) if isinstance(item, n.BufferLoad | n.BufferStore)}
    written = {item.buffer for item in walk(body) if isinstance(item, n.BufferStore)}
    for tensor, buffer in buffers.items():
        if buffer in written:
            raise IRError(
                f"hybrid function {node.name!r} writes its argument {tensor.name!r}" + at(span),
                hint="write to what `output_tensor` makes, and return that",
            )
    inputs = tuple(tensor for tensor, buffer in buffers.items() if buffer in used)
    op = HybridOp(
        node.name, "", {}, span, inputs, tuple(buffers[tensor] for tensor in inputs), outputs, body,
        tuple(buffer for buffer in allocated if buffer not in outputs),
    )  # fmt: skip
    for output in outputs:
        if output not in written:
            where.fail(node, f"{output.name} is never written")
    results = [op.output(i) for i in range(op.num_outputs)]
    return results if len(results) > 1 else results[0]
