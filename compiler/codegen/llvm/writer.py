"""Write one LLVM function as text, hoisting invariant values and sharing repeated ones.

A *level* is a place where loop-invariant values are defined: level 0 is the function's entry, and each loop
adds one whose definitions stand at the top of its body. A value without side effects goes to the level
of its operands and is looked up there by its text first. So what LLVM reads is already free of
repeated and of loop-invariant address arithmetic. A value that rests on a load, a phi or a call is *pinned*:
it is written where it is used and shared until the next label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Union

PINNED = 1 << 30
OUT_OF_MEMORY = -1
NO_TILES = -2
ASSERTION_FAILED = 1
_SELDOM = ', !prof !{!"branch_weights", i32 1, i32 2000}'
_MOST_WEIGHT = (1 << 32) - 1

Operand = str | int
"""An index: an SSA name of type i64, or a known integer."""

Lines = list[Union[str, "Lines"]]


@dataclass(slots=True)
class LoopLevel:
    """Definitions that stand at the top of a loop body or function."""

    header: Lines = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)


class FunctionWriter:
    """The text of one function: `value` adds instructions, `start_block` labels, `loop` loops."""

    def __init__(self, signature: str) -> None:
        """`signature` is all of the definition up to its brace, such as `define i32 @f(ptr %a)`.

        The function returns 0, or another number where it fails.
        """
        self.signature = signature
        self.allocas: list[str] = []
        self.levels = [LoopLevel(), LoopLevel()]  # what follows from the parameters; then from heap memory too
        self.level_of: dict[str, int] = {}
        self.lines: Lines = [self.levels[1].header]
        self.block = "start"
        self.fenced = False  # whether all stores are to be seen by other threads before this returns
        self.heap: list[str] = []  # pointers taken at entry
        self.cells: list[str] = []  # memory of a size that is found out on the way
        self._heap_calls: list[str] = []
        self._failures: list[tuple[str, str]] = []  # (code, block it comes from)
        self._count = 0
        self._pinned: dict[str, str] = {}
        self.loaded: dict[str, dict[str, str]] = {}

    # -- names and values ------------------------------------------------------------------------
    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"%{prefix}{self._count}"

    def label(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def value(self, rhs: str, *operands: Operand) -> str:
        """Return the name of the value `rhs`, which has no side effects.
        It may be computed wherever its `operands` exist."""
        level = 0
        get = self.level_of.get
        for operand in operands:
            if type(operand) is str and operand[0] == "%":
                known = get(operand, PINNED)
                if known > level:
                    level = known
        if level == PINNED:
            name = self._pinned.get(rhs)
            if name is None:
                name = self._pinned[rhs] = self.inline(rhs)
            return name
        place = self.levels[level]
        name = place.known.get(rhs)
        if name is None:
            self._count += 1
            name = place.known[rhs] = f"%v{self._count}"
            place.header.append(f"  {name} = {rhs}")
            self.level_of[name] = level
        return name

    def inline(self, rhs: str) -> str:
        """A new name for `rhs`, computed here and now."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {rhs}")
        return name

    def is_invariant(self, value: str) -> bool:
        """Whether a value is a constant, or may be computed at the top of a loop or function."""
        return value[0] != "%" or self.level_of.get(value, PINNED) != PINNED

    def effect(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def alloca(self, element: str, count: int, align: int) -> str:
        """Stack storage for the whole function, `count` elements of type `element`."""
        name = self.fresh("s")
        self.allocas.append(f"  {name} = alloca [{count} x {element}], align {align}")
        self.level_of[name] = 0
        return name

    def heap_memory(self, size: Operand) -> str:
        """A pointer to `size` bytes taken at the function's entry and given back at its exit.

        `size` is of level 0. The function fails with OUT_OF_MEMORY when there is no memory.
        """
        name = self.fresh("h")
        self.heap.append(name)
        self._heap_calls.append(f"  {name} = call ptr @tunefarm_alloc(i64 {size})")
        self.level_of[name] = 1
        return name

    def cell(self, words: int) -> str:
        """Reserve a cell of `words` numbers, empty at the function's entry. Its memory is freed at the exit."""
        name = self.alloca("i64", words, 8)
        self.cells.append(name)
        self.allocas.append(f"  store ptr null, ptr {name}, align 8")
        self.allocas.append(f"  {name}.size = getelementptr i64, ptr {name}, i64 1")
        self.allocas.append(f"  store i64 0, ptr {name}.size, align 8")
        return name

    @property
    def can_fail(self) -> bool:
        return bool(self.heap or self._failures)

    def fail_unless(self, condition: str, code: str) -> None:
        """Return `code` (an i32) from here unless `condition` holds."""
        passed = self.label("passed")
        self._failures.append((code, self.block))
        self.branch_if(condition, passed, "fail")
        self.start_block(passed)

    # -- integers --------------------------------------------------------------------------------
    def iadd(self, a: Operand, b: Operand) -> Operand:
        if type(a) is int:
            if type(b) is int:
                return a + b
            a, b = b, a
        if b == 0:
            return a
        return self.value(f"add nsw i64 {a}, {b}", a, b)

    def imul(self, a: Operand, b: int) -> Operand:
        if type(a) is int:
            return a * b
        return a if b == 1 else self.value(f"mul nsw i64 {a}, {b}", a) if b else 0

    # -- blocks ----------------------------------------------------------------------------------
    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label
        self._pinned.clear()
        self.loaded.clear()

    def branch(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str, notes: str = "") -> None:
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{notes}")

    def rarely(self, test: str, ty: str, usual: str, other: Callable[[], str]) -> str:
        """Return the value `usual` of type `ty`, or what `other` computes where `test` holds, which is rare.
        Whatever is known before stays known."""
        rare, after, before = self.label("rare"), self.label("after"), self.block
        pinned, loaded = dict(self._pinned), {memory: dict(seen) for memory, seen in self.loaded.items()}
        self.branch_if(test, rare, after, _SELDOM)
        self.start_block(rare)
        made, last = other(), self.block
        self.branch(after)
        self.start_block(after)
        self._pinned, self.loaded = pinned, loaded
        return self.inline(f"phi {ty} [ {usual}, %{before} ], [ {made}, %{last} ]")

    def loop(self, low: Operand, high: Operand, may_be_empty: bool, body: Callable[[str], None]) -> None:
        """Count from `low` up to `high`, excluded; `body` gets the counter's name (an i64)."""
        head, done, counter = self.label("loop"), self.label("done"), self.fresh("i")
        if may_be_empty:
            test = self.value(f"icmp slt i64 {low}, {high}", low, high)
            self.branch_if(test, head, done)
        else:
            self.branch(head)
        before = self.block
        self.start_block(head)
        lines, slot = self.lines, len(self.lines)
        lines.append("")
        level = LoopLevel()
        lines.append(level.header)
        self.level_of[counter] = len(self.levels)
        self.levels.append(level)
        body(counter)
        self.levels.pop()
        following = self.fresh("i")
        lines[slot] = f"  {counter} = phi i64 [ {low}, %{before} ], [ {following}, %{self.block} ]"
        unsigned = "nuw " if type(low) is int and low >= 0 else ""
        self.effect(f"{following} = add {unsigned}nsw i64 {counter}, 1")
        again = self.inline(f"icmp slt i64 {following}, {high}")
        self.branch_if(again, head, done, _how_often(low, high))
        self.start_block(done)

    # -- text ------------------------------------------------------------------------------------
    def text(self, attributes: str = "#0") -> str:
        """The finished function; call once, after the body."""
        out = [f"{self.signature} {attributes} {{", "entry:", *self.allocas]
        _flatten(self.levels[0].header, out)
        out += self._entry()
        out.append("start:")
        _flatten(self.lines, out)
        out += [*(["  fence seq_cst"] if self.fenced else []), *self._frees("done"), "  ret i32 0"]
        if self._failures:
            codes = ", ".join(f"[ {code}, %{block} ]" for code, block in self._failures)
            out += ["fail:", f"  %code = phi i32 {codes}", *self._frees("failed"), "  ret i32 %code"]
        out += ["}", ""]
        return "\n".join(out)

    def _frees(self, where: str) -> list[str]:
        """Memory is given back; `where` tells the function's two ends apart."""
        lines = [f"  call void @tunefarm_free(ptr {name})" for name in self.heap]
        for name in self.cells:
            lines.append(f"  {name}.{where} = load ptr, ptr {name}, align 8")
            lines.append(f"  call void @tunefarm_free(ptr {name}.{where})")
        return lines

    def _entry(self) -> list[str]:
        """End the entry block: take heap memory, and go on if there was enough."""
        if not self.heap:
            return ["  br label %start"]
        lines = list(self._heap_calls)
        bad = "false"
        for i, name in enumerate(self.heap):
            lines.append(f"  %none{i} = icmp eq ptr {name}, null")
            lines.append(f"  %bad{i} = or i1 %none{i}, {bad}")
            bad = f"%bad{i}"
        self._failures.append((str(OUT_OF_MEMORY), "entry"))
        return [*lines, f"  br i1 {bad}, label %fail, label %start"]


def _how_often(low: Operand, high: Operand) -> str:
    """Tell LLVM how often a loop runs, where that is known.
    LLVM otherwise assumes about 30 iterations. The code of an edge, in one more loop, would then get the registers, and
    the sums of whole tiles the stack."""
    if type(low) is not int or type(high) is not int or not 1 < high - low <= _MOST_WEIGHT:
        return ""
    return f', !prof !{{!"branch_weights", i32 {high - low - 1}, i32 1}}'


def _flatten(lines: Lines, out: list[str]) -> None:
    for line in lines:
        if type(line) is str:
            out.append(line)
        else:
            _flatten(line, out)  # type: ignore[arg-type]
