"""A loop function, followed once.

What a step does, and which of its arguments change from step to step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.relax.nodes import Call, Function, If, SeqExpr
from compiler.relax.vm_codegen.native.loops import tail_of
from compiler.relax.vm_codegen.native.trace import FunctionTrace, Surroundings
from compiler.relax.vm_codegen.native.values import (
    Branch,
    Cell,
    Exit,
    Fill,
    Instruction,
    Loop,
    NativeTensor,
    NotNative,
    ShapeValue,
    Value,
    leaves,
)
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_WHOLE = -1
Changing = frozenset[tuple[int, int]]
"""What changes: arguments by number, each with an extent's axis, or _WHOLE for what is in it."""


def follow_loop(name: str, graphs: Iterable[str], func: Function, around: Surroundings) -> LoopTrace:
    """Follow a function whose calls of itself and of `graphs`, the loop's other functions, come last.

    What changes is found by repetition. The first round assumes that nothing changes; each further round knows what was
    found before, until nothing new is found.
    """
    checks = len(around.checks)
    changing: Changing = frozenset()
    while True:
        trace = LoopTrace(name, graphs, func, around, changing)
        if trace.found <= changing:
            return trace
        changing |= trace.found
        del around.checks[checks:]


class LoopTrace(FunctionTrace):
    """Follows a loop.
    `found` are the arguments that its calls of itself change. An Exit gives the results where the loop ends."""

    def __init__(
        self, name: str, graphs: Iterable[str], func: Function, around: Surroundings, changing: Changing
    ) -> None:
        self.found: Changing = frozenset()
        self.exits: list[Value] = []
        self._graphs = frozenset(graphs)
        self._changing = changing
        self._func = func
        self._inside: list[str] = []
        self._going = Cell.of(1)
        self._state: list[Value] = []
        self._cells: dict[int, Cell] = {}
        super().__init__(name, func, around)

    def _follow(self, body: SeqExpr) -> None:
        given = list(leaves(tuple(self.own.values)))
        changed = sorted({number for number, _ in self._changing})
        for number in changed:
            self._cells[number] = Cell.of(_rank(given[number]))
            self.fill(self._cells[number], _counted(given[number]))
        outer, self.code = self.code, []
        self._state = [self._at_step(number, value) for number, value in enumerate(given)]
        state = iter(self._state)
        for param, value in zip(self._func.params, self.own.values):
            self._values[param] = _like(value, state)
        self._tail(body)
        steps, self.code = self.code, outer
        self._emit(Loop(tuple(steps), self._going))

    def _at_step(self, number: int, value: Value) -> Value:
        """An argument in a step: itself if it stays, else the content of its cell."""
        if number not in self._cells:
            return value
        dtype = value.dtype if isinstance(value, NativeTensor) else "int64"
        opened = self.open(self._cells[number], dtype)
        given = _counted(value)
        dims = tuple(
            [
                mine if (number, axis) in self._changing else before
                for axis, (mine, before) in enumerate(zip(opened.dims, given.dims))
            ]
        )
        if isinstance(value, NativeTensor):
            return NativeTensor(opened.storage, dims, dtype)
        return ShapeValue(dims) if isinstance(value, ShapeValue) else dims[0]

    # --------------------------------------------------------------------------- ends of a step

    def _tail(self, seq: RelaxExpr) -> None:
        """Follow a sequence.
        It ends with a call of the loop, a condition with such calls, or a result."""
        assert isinstance(seq, SeqExpr)
        last = tail_of(seq)
        if last is None or not (isinstance(last.value, If) or self._is_of_loop(last.value)):
            self._end(self._sequence(seq))
            return
        for binding in (binding for block in seq.blocks for binding in block.bindings):
            if binding is last:
                break
            self._binding(binding)
        if isinstance(last.value, If):
            self._branches(last.value)
        else:
            assert isinstance(last.value, Call)
            self._again(last.value)

    def _is_of_loop(self, value: RelaxExpr) -> bool:
        """Whether a value is a call of one of the loop's functions."""
        names = self._graphs | {self.name}
        return isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name_hint in names

    def _end(self, value: Value) -> None:
        self.exits.append(value)
        self._use(*leaves(value))
        self._emit(Exit(value, self._going))

    def _branches(self, choice: If) -> None:
        condition = self._condition(choice)
        kept, outer = self.code, self._scope
        taken: list[tuple[Instruction, ...]] = []
        for branch in (choice.true_branch, choice.false_branch):
            self.code, self._scope = [], self.position
            self._tail(branch)
            taken.append(tuple(self.code))
            self.position += 1
        self.code, self._scope = kept, outer
        self._emit(Branch(condition, *taken))

    def _again(self, call: Call) -> None:
        assert isinstance(call.op, GlobalVar)
        name, args = call.op.name_hint, [self._value(arg) for arg in call.args]
        if name == self.name:
            self._next_step(list(leaves(tuple(args))))
            return
        if name in self._inside:
            raise NotNative(f"the loop of {name} within that of {self.name}")
        func = self.around.graphs[name]
        assert isinstance(func.body, SeqExpr)
        self._inside.append(name)
        self._values.update(zip(func.params, args))
        self._tail(func.body)
        self._inside.pop()

    def _next_step(self, args: list[Value]) -> None:
        """Put what changes where the next step finds it."""
        if len(args) != len(self._state):
            raise NotNative(f"{self.name} calls itself with {len(args)} values, and takes {len(self._state)}")
        found: set[tuple[int, int]] = set()
        for number, (arg, now) in enumerate(zip(args, self._state)):
            found |= set(self._changes(number, arg, now))
        self.found |= found
        places = {
            id(value.storage): number for number, value in enumerate(self._state) if isinstance(value, NativeTensor)
        }
        fills: list[tuple[Cell, NativeTensor | ShapeValue]] = []
        for number, cell in self._cells.items():
            arg = _counted(args[number])
            if isinstance(arg, NativeTensor) and id(arg.storage) in places and places[id(arg.storage)] in self._cells:
                if places[id(arg.storage)] == number and _starts(arg):
                    self._emit(Fill(cell, arg.dims, None))  # it is there
                    continue
                apart = self._allocated(arg.dims, arg.dtype)  # another argument's, which may be overwritten first
                self.copy(apart, arg)
                arg = apart
            fills.append((cell, arg))
        for cell, source in fills:
            self.fill(cell, source)

    def _changes(self, number: int, arg: Value, now: Value) -> Iterator[tuple[int, int]]:
        if arg is now:
            return
        if type(arg) is not type(now) and not (isinstance(arg, PrimExpr) and isinstance(now, PrimExpr)):
            raise NotNative(f"{self.name} calls itself with a value of another kind")
        mine, before = _counted(arg), _counted(now)
        if len(mine.dims) != len(before.dims):
            raise NotNative(f"{self.name} calls itself with an array of another rank")
        axes = [axis for axis, (a, b) in enumerate(zip(mine.dims, before.dims)) if not self.equal(a, b)]
        if axes or isinstance(arg, NativeTensor):
            yield number, _WHOLE
        for axis in axes:
            yield number, axis


def _rank(value: Value) -> int:
    return len(_counted(value).dims)


def _counted(value: Value) -> NativeTensor | ShapeValue:
    """An argument as something with extents: a number is a shape of one."""
    match value:
        case NativeTensor() | ShapeValue():
            return value
        case PrimExpr(dtype="int64"):
            return ShapeValue((value,))
    raise NotNative("a loop over what is neither an array, a shape nor an int64 number")


def _starts(tensor: NativeTensor) -> bool:
    return isinstance(tensor.offset, n.IntImm) and tensor.offset.value == 0


def _like(value: Value, flat: Iterator[Value]) -> Value:
    """The next values, in nested tuples as they are in `value`."""
    return tuple([_like(item, flat) for item in value]) if isinstance(value, tuple) else next(flat)
