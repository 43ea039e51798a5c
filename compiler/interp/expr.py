"""Python source for expressions: what the interpreter runs.

An expression becomes one Python expression for each of its lanes. Before it stand the statements that it needs:
rounding to float32, bounds checks, branches that must stay lazy. The range of every integer is followed, so that
wrapping and checks are written only where a value may leave its type or its buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.interp.memory import InterpreterMemory
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Bound = int | None


@dataclass(slots=True)
class ValueCode:
    """Python source of a scalar. `lo`, `hi` bound an integer; `exact` says a float needs no rounding."""

    code: str
    lo: Bound = None
    hi: Bound = None
    exact: bool = True


def union(a: ValueCode, b: ValueCode) -> tuple[Bound, Bound]:
    """Return bounds that hold for both values."""
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    return lo, hi


Rule = Callable[["ExprWriter", Any, int], ValueCode]
# One rule a node type: filled by compiler.interp.expr_rules and interp_calls, which write with an ExprWriter.
RULES: dict[type, Rule] = {}


class ExprWriter:
    """Writes source lines; each method returns source that is valid after the lines written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.memory = InterpreterMemory()
        self.vars: dict[n.Var, ValueCode] = {}
        self.lane_vars: dict[n.Var, list[ValueCode]] = {}
        self.labels: dict[str, str] = {}  # Python name → name in the function, for messages
        self._counter = 0
        self._shared: dict[PrimExpr, ValueCode] | None = None

    # --------------------------------------------------------------------- lines and names

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def define(self, var: n.Var, lo: Bound, hi: Bound) -> str:
        """A Python name for a variable that is about to be assigned."""
        name = self.fresh("v")
        self.vars[var] = ValueCode(name, lo, hi)
        self.labels[name] = var.name
        return name

    def name_of(self, value: ValueCode) -> str:
        """A name that holds `value`, so that it may be used twice."""
        if value.code.isidentifier() or value.code.lstrip("-").isdigit():
            return value.code
        name = self.fresh("t")
        self.line(f"{name} = {value.code}")
        return name

    def captured(self, write: Callable[[], ValueCode]) -> tuple[list[str], ValueCode]:
        """Collect the lines that `write` adds, one level deeper, apart from the others.
        Returns them and its result."""
        outer, shared = self.lines, self._shared
        self.lines, self._shared = [], None
        self.depth += 1
        result = write()
        self.depth -= 1
        inner, self.lines, self._shared = self.lines, outer, shared
        return inner, result

    # -------------------------------------------------------------------------- values

    def value(self, expr: PrimExpr, lane: int = 0) -> ValueCode:
        """One lane of `expr` as a value of its dtype: floats rounded, integers wrapped."""
        raw = self.raw(expr, lane)
        dtype = element_of(expr.dtype)
        parsed = parse_dtype(dtype)
        if parsed.is_float:
            return raw if raw.exact or dtype == "float64" else self.rounded(raw.code, dtype)
        return self.wrapped(raw, dtype) if parsed.is_int else raw

    def rounded(self, code: str, dtype: str) -> ValueCode:
        name = self.fresh("t")
        if dtype == "float32":
            self.line(f"CELL[0] = {code}")
            self.line(f"{name} = CELL[0]")
        else:
            self.line(f"{name} = round_{dtype}({code})")
        return ValueCode(name)

    def wrapped(self, raw: ValueCode, dtype: str) -> ValueCode:
        parsed = parse_dtype(dtype)
        half = 1 << (parsed.bits - 1) if parsed.is_signed else 0
        low, high = -half, (1 << parsed.bits) - half - 1
        if raw.lo is not None and raw.hi is not None and low <= raw.lo and raw.hi <= high:
            return raw
        mask = (1 << parsed.bits) - 1
        if half:
            return ValueCode(f"((({raw.code}) + {half} & {mask}) - {half})", low, high)
        return ValueCode(f"(({raw.code}) & {mask})", low, high)

    def index(self, expr: PrimExpr, lane: int = 0) -> ValueCode:
        """Write an index or loop bound.
        Index arithmetic is taken not to overflow, so sums are not wrapped."""
        return self.raw(expr, lane if lanes_of(expr.dtype) > 1 else 0)

    def condition(self, expr: PrimExpr, lane: int = 0) -> str:
        return self.raw(expr, lane if lanes_of(expr.dtype) > 1 else 0).code

    def raw(self, expr: PrimExpr, lane: int = 0) -> ValueCode:
        """One lane of `expr`; a float may still need rounding, an integer wrapping."""
        rule = RULES.get(type(expr))
        if rule is None:
            raise LoweringError(f"the interpreter has no rule for {type(expr).__name__}")
        return rule(self, expr, lane)

    def operand(self, expr: PrimExpr, lane: int) -> ValueCode:
        """A child's lane, where a scalar child stands for every lane."""
        return self.value(expr, lane if lanes_of(expr.dtype) > 1 else 0)

    # -------------------------------------------------------------------------- branches

    def branch(self, condition: str, yes: Callable[[], ValueCode], no: Callable[[], ValueCode]) -> ValueCode:
        """`yes` where `condition`, else `no`; only the taken side is evaluated."""
        yes_lines, a = self.captured(yes)
        no_lines, b = self.captured(no)
        lo, hi = union(a, b)
        if not yes_lines and not no_lines:
            return ValueCode(f"({a.code} if {condition} else {b.code})", lo, hi)
        name = self.fresh("t")
        pad = " " * (self.depth + 1)
        self.line(f"if {condition}:")
        self.lines.extend([*yes_lines, f"{pad}{name} = {a.code}"])
        self.line("else:")
        self.lines.extend([*no_lines, f"{pad}{name} = {b.code}"])
        return ValueCode(name, lo, hi)

    def sharing(self, write: Callable[[], None]) -> None:
        """Run `write` with broadcast values computed once for all lanes."""
        self._shared = {}
        write()
        self._shared = None

    def broadcast(self, expr: n.Broadcast) -> ValueCode:
        if self._shared is None:
            return self.value(expr.value)
        found = self._shared.get(expr)
        if found is None:
            found = self.value(expr.value)
            found = self._shared[expr] = ValueCode(self.name_of(found), found.lo, found.hi)
        return found

    def all_lanes(self, expr: PrimExpr, write: Callable[[], str]) -> str:
        """Return the name of a list with the lanes of `expr`, made once in a statement.
        `write` gives the source of the lanes."""
        found = None if self._shared is None else self._shared.get(expr)
        if found is None:
            found = ValueCode(self.name_of(ValueCode(write())))
            if self._shared is not None:
                self._shared[expr] = found
        return found.code

    # -------------------------------------------------------------------------- memory

    def place(self, buffer: n.Buffer, indices: tuple[PrimExpr, ...], lane: int) -> tuple[str, str]:
        """(memory, flat index) of one lane of an access, with the checks it needs written out."""
        memory = self.memory.of(buffer)
        if len(indices) != len(buffer.shape):
            raise LoweringError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, indexed with {len(indices)}"
            )
        width = lanes_of(buffer.dtype)
        places, checks = [], []
        for expr, dim in zip(indices, buffer.shape):
            at = self.index(expr, lane // width)
            extent = self.index(dim)
            if at.lo is None or at.hi is None or at.lo < 0 or extent.lo is None or at.hi >= extent.lo:
                at = ValueCode(self.name_of(at), at.lo, at.hi)
                checks.append(f"0 <= {at.code} < {extent.code}")
            places.append(at)
        if checks:
            site = self.memory.site(buffer)
            found = "".join(f"{p.code}, " for p in places)
            shape = "".join(f"{self.index(d).code}, " for d in buffer.shape)
            self.line(f"if not ({' and '.join(checks)}): outside({site!r}, ({found}), ({shape}))")
        return memory, self._flat(buffer, places, lane % width, width)

    def _flat(self, buffer: n.Buffer, places: list[ValueCode], lane: int, width: int) -> str:
        strides = self.strides(buffer)
        parts = [p.code if s == "1" else f"({p.code})*{s}" for p, s in zip(places, strides) if p.code != "0"]
        offset = self.memory.offset(buffer)
        if offset is None and buffer.elem_offset is not None:
            offset = self.index(buffer.elem_offset).code
        if offset is not None:
            parts.append(offset)
        flat = " + ".join(parts) or "0"
        return flat if width == 1 else f"({flat})*{width} + {lane}"

    def strides(self, buffer: n.Buffer) -> list[str]:
        """The strides, in elements, as source."""
        known = self.memory.strides(buffer)
        if known is not None:
            return known
        if buffer.strides:
            return [self._factor(s) for s in buffer.strides]
        strides: list[str] = []
        step, symbols = 1, ""
        for dim in reversed(buffer.shape):
            strides.append(str(step) if not symbols else f"({symbols}*{step})")
            size = ops.as_int(dim)
            if size is None:
                factor = self._factor(dim)
                symbols = f"{symbols}*{factor}" if symbols else factor
            else:
                step *= size
        return strides[::-1]

    def _factor(self, expr: PrimExpr) -> str:
        return f"({self.index(expr).code})" if ops.as_int(expr) is None else str(ops.as_int(expr))
