"""A scheduled computation as the text of a hybrid function: what `te.hybrid.build` gives."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.faces.hybrid.script import HybridFunction, script
from compiler.ir.base import Node
from compiler.ir.visit import walk
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import substitute

_BINARY: dict[type[n.BinaryOp], str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.Div: "/", n.FloorDiv: "//", n.FloorMod: "%", n.EQ: "==", n.NE: "!=",
    n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">=", n.And: "and", n.Or: "or",
}  # fmt: skip
_LOOPS = {
    n.ForKind.SERIAL: "range", n.ForKind.PARALLEL: "parallel", n.ForKind.VECTORIZED: "vectorize",
    n.ForKind.UNROLLED: "unroll",
}  # fmt: skip
_FUNCTIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "sigmoid": "sigmoid",
    "pow": "power", "popcount": "popcount", "round": "round", "fabs": "abs", "likely": "likely",
}  # fmt: skip
_INDENT = "    "


class HybridModule:
    """A hybrid function as text, which can be saved, loaded and called."""

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.name = name
        self._source = ""
        self._function: HybridFunction | None = None
        if src is not None:
            self._take(src)

    def __call__(self, *args: Any) -> Any:
        """Call the function: tensors give tensors, arrays give arrays."""
        if self._function is None:
            raise IRError("this HybridModule has no function yet", hint="load one, or make it with te.hybrid.build")
        return self._function(*args)

    def get_source(self) -> str:
        """Return the text of the function."""
        return self._source

    def save(self, path: str | Path) -> None:
        """Write the text to a file; `.py` is put behind a name without it."""
        target = Path(path)
        (target if target.suffix == ".py" else target.with_name(f"{target.name}.py")).write_text(self._source)

    def load(self, path: str | Path) -> None:
        """Read the text from a file that `save` wrote. The file is Python code, and runs."""
        self._take(Path(path).read_text())

    def _take(self, src: str) -> None:
        found = re.search(r"^def (\w+)\(", src, re.MULTILINE)
        if found is None:
            raise IRError("the text has no function", hint="it holds one that begins with `def`")
        self._source = src
        self.name = found[1]
        self._function = script(_function(src[found.start() :], found[1]))


def _function(src: str, name: str) -> Any:
    """The Python function of a text; linecache keeps the text, so that its lines can be read again."""
    where = f"<hybrid function {name} {hash(src) & 0xFFFFFFFF:x}>"
    made: dict[str, Any] = {"__name__": name}
    exec(compile(src, where, "exec"), made)
    linecache.cache[where] = (len(src), None, src.splitlines(keepends=True), where)
    return made[name]


def build(
    sch: Schedule, inputs: Sequence[Tensor], outputs: Sequence[Tensor], name: str = "hybrid_func"
) -> HybridModule:
    """Return the scheduled computation as a hybrid function of `inputs` that gives `outputs`.

    Raises IRError where it holds what a hybrid function cannot say, such as an intrinsic of a device.
    """
    func = schedule_to_func(sch, [*inputs, *outputs], name)
    return HybridModule(_Printer(func, len(inputs)).text(name))


class _Printer:
    """Writes a function of TensorIR as Python, a line at a time."""

    def __init__(self, func: n.PrimFunc, inputs: int) -> None:
        self.func = func
        self.buffers = [func.buffer_map[param] for param in func.params]
        self.inputs = inputs
        self._names: dict[Node, str] = {}

    def text(self, name: str) -> str:
        ins, outs = self.buffers[: self.inputs], self.buffers[self.inputs :]
        head = f"def {name}({', '.join(map(self.name, ins))}):"
        made = [f"{self.name(b)} = output_tensor({self.shape(b)}, {b.dtype!r})" for b in outs]
        body = [*made, *self.stmt(self.func.body), f"return {', '.join(map(self.name, outs))}"]
        return "\n".join([head, *(_INDENT + line for line in body)]) + "\n"

    def name(self, node: n.Var | n.Buffer) -> str:
        if node not in self._names:
            wanted = re.sub(r"\W", "_", node.name)
            found, count = wanted, 0
            while found in self._names.values():
                count += 1
                found = f"{wanted}_{count}"
            self._names[node] = found
        return self._names[node]

    def shape(self, buffer: n.Buffer) -> str:
        return f"({', '.join(map(self.expr, buffer.shape))},)"

    # ------------------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> Iterator[str]:
        match stmt:
            case n.SeqStmt(seq=parts):
                for part in parts:
                    yield from self.stmt(part)
            case n.BlockRealize():
                yield from self.block(stmt)
            case n.For():
                yield from self.loop(stmt)
            case n.IfThenElse(condition=condition, then_case=then, else_case=other):
                yield from self.inside(f"if {self.expr(condition)}:", then)
                if other is not None:
                    yield from self.inside("else:", other)
            case n.While(condition=condition, body=body):
                yield from self.inside(f"while {self.expr(condition)}:", body)
            case n.LetStmt(var=var, value=value, body=body):
                yield f"{self.name(var)} = {self.expr(value)}"
                yield from self.stmt(body)
            case n.BufferStore(buffer=buffer, value=value, indices=indices):
                yield f"{self.element(buffer, indices)} = {self.expr(value)}"
            case n.AttrStmt(body=body):
                yield from self.stmt(body)
            case n.Evaluate(value=n.IntImm()):
                return
            case _:
                self.refuse(stmt)

    def inside(self, head: str, body: Stmt) -> Iterator[str]:
        yield head
        lines = list(self.stmt(body))
        yield from (_INDENT + line for line in lines or ["pass"])

    def loop(self, loop: n.For) -> Iterator[str]:
        name = self.name(loop.loop_var)
        if loop.thread_binding is not None:
            head = f'for {name} in bind("{loop.thread_binding.thread_tag}", {self.expr(loop.extent)}):'
        else:
            low = "" if isinstance(loop.min, n.IntImm) and loop.min.value == 0 else self.expr(loop.min)
            bounds = f"{low}, {low} + {self.expr(loop.extent)}" if low else self.expr(loop.extent)
            head = f"for {name} in {_LOOPS[loop.kind]}({bounds}):"
        yield from self.inside(head, loop.body)

    def block(self, realize: n.BlockRealize) -> Iterator[str]:
        block = realize.block
        values = {axis.var: value for axis, value in zip(block.iter_vars, realize.iter_values)}
        for buffer in block.alloc_buffers:
            yield f"{self.name(buffer)} = allocate({self.shape(buffer)}, {buffer.dtype!r}, {buffer.scope!r})"
        body = substitute(block.body, values)
        if block.init is not None:
            first = [
                f"{self.expr(value)} == 0"
                for axis, value in zip(block.iter_vars, realize.iter_values)
                if axis.iter_type is n.IterType.COMM_REDUCE
            ]
            yield from self.inside(f"if {' and '.join(first) or 'True'}:", substitute(block.init, values))
        if isinstance(realize.predicate, n.IntImm):
            yield from self.stmt(body)
        else:
            yield from self.inside(f"if {self.expr(realize.predicate)}:", body)

    # ----------------------------------------------------------------------------- expressions

    def element(self, buffer: n.Buffer, indices: Sequence[PrimExpr]) -> str:
        return f"{self.name(buffer)}[{', '.join(map(self.expr, indices)) or '0'}]"

    def expr(self, expr: PrimExpr) -> str:
        match expr:
            case n.IntImm(dtype="bool", value=value):
                return str(bool(value))
            case n.IntImm(dtype=dtype, value=value):
                return str(value) if dtype == "int32" else f"{dtype}({value})"
            case n.FloatImm(dtype=dtype, value=value):
                if not math.isfinite(value):
                    return f"{'inf' if value > 0 else 'ninf'}({dtype!r})"
                return repr(value) if dtype == "float32" else f"{dtype}({value!r})"
            case n.Var():
                return self.name(expr)
            case n.BufferLoad(buffer=buffer, indices=indices):
                return self.element(buffer, indices)
            case n.Cast(dtype=dtype, value=value):
                return f"{dtype}({self.expr(value)})"
            case n.Min(a=a, b=b):
                return f"min({self.expr(a)}, {self.expr(b)})"
            case n.Max(a=a, b=b):
                return f"max({self.expr(a)}, {self.expr(b)})"
            case n.Not(a=a):
                return f"(not {self.expr(a)})"
            case n.Select(condition=c, true_value=a, false_value=b):
                return f"({self.expr(a)} if {self.expr(c)} else {self.expr(b)})"
            case n.BinaryOp(a=a, b=b) if type(expr) in _BINARY:
                return f"({self.expr(a)} {_BINARY[type(expr)]} {self.expr(b)})"
            case n.Call():
                return self.call(expr)
        return self.refuse(expr)

    def call(self, call: n.Call) -> str:
        name = str(getattr(call.op, "name", "")).removeprefix("tir.")
        args = [self.expr(arg) for arg in call.args]
        if name == "if_then_else":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if name not in _FUNCTIONS:
            self.refuse(call)
        return f"{_FUNCTIONS[name]}({', '.join(args)})"

    def refuse(self, node: Node) -> NoReturn:
        names = [str(getattr(item.op, "name", "")) for item in walk(node) if isinstance(item, n.Call)]
        what = f"{type(node).__name__} ({names[0]})" if names else type(node).__name__
        raise IRError(f"a hybrid function cannot hold {what}", hint="print the schedule with lower(...).script()")
