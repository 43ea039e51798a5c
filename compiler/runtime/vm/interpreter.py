"""Running bytecode: each function is decoded once into Python calls, then stepped through.

A frame is a list: the function's registers, then the constants and integers that its instructions name. An instruction
fetches its arguments from the frame in one step, whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Any, assert_never

from compiler.runtime.vm.bytecode import (
    MACHINE,
    VOID,
    Call,
    ConstantRef,
    FunctionRef,
    Goto,
    If,
    Immediate,
    Instruction,
    Operand,
    Register,
    Ret,
    VMFunction,
)
from compiler.runtime.vm.executable import Program

Instrument = Callable[..., Any]
Step = tuple[int, Any, Any, Any]
_CALL, _CALL_VOID, _RET, _GOTO, _IF = range(5)


class InstrumentReturn(IntEnum):
    """What an instrument wants: go on as ever, or leave the call out."""

    NO_OP = 0
    SKIP_RUN = 1


class Resolver:
    """What the instructions of a program name: functions by number, and the machine."""

    def __init__(self, program: Program, machine: Any, find: Callable[[str], Callable[..., Any]]) -> None:
        self.program = program
        self.machine = machine
        self._find = find
        self._found: dict[int, Callable[..., Any]] = {}

    def function(self, index: int) -> Callable[..., Any]:
        """The function of a number. Raises VMError for a name that nothing has."""
        found = self._found.get(index)
        if found is None:
            found = self._found[index] = self._find(self.program.functions[index].name)
        return found

    def name(self, index: int) -> str:
        return self.program.functions[index].name


class Code:
    """A function's instructions, ready to be stepped through."""

    __slots__ = ("_names", "_resolver", "_steps", "_tail", "function")

    def __init__(self, function: VMFunction, resolver: Resolver) -> None:
        self.function = function
        self._resolver = resolver
        tail: list[Any] = []
        places: dict[Operand, int] = {}

        def place(operand: Operand) -> int:
            """Where in a frame the operand's value is."""
            if isinstance(operand, Register) and operand not in (VOID, MACHINE):
                return operand.index
            if operand not in places:
                places[operand] = function.registers + len(tail)
                tail.append(_value(operand, resolver))
            return places[operand]

        self._steps = [_step(instruction, place, resolver) for instruction in function.code]
        self._names = [resolver.name(i.function) if isinstance(i, Call) else "" for i in function.code]
        self._tail = tail

    def run(self, args: Sequence[Any]) -> Any:
        """Run on as many arguments as the function has inputs."""
        frame = [*args, *[None] * (self.function.registers - len(args)), *self._tail]
        steps = self._steps
        at = 0
        while True:
            kind, function, fetch, to = steps[at]
            if kind == _CALL:
                frame[to] = function(*fetch(frame))
                at += 1
            elif kind == _CALL_VOID:
                function(*fetch(frame))
                at += 1
            elif kind == _RET:
                return frame[to]
            elif kind == _IF:
                at += 1 if frame[to] else fetch
            else:
                at += to

    def run_watched(self, args: Sequence[Any], instrument: Instrument) -> Any:
        """As `run`, with an instrument that is called before and after each call."""
        frame = [*args, *[None] * (self.function.registers - len(args)), *self._tail]
        at = 0
        while True:
            kind, function, fetch, to = self._steps[at]
            if kind in (_CALL, _CALL_VOID):
                given = fetch(frame)
                name = self._names[at]
                result = None
                if instrument(function, name, True, None, *given) != InstrumentReturn.SKIP_RUN:
                    result = function(*given)
                    instrument(function, name, False, result, *given)
                if kind == _CALL:
                    frame[to] = result
                at += 1
            elif kind == _RET:
                return frame[to]
            elif kind == _IF:
                at += 1 if frame[to] else fetch
            else:
                at += to


def _step(instruction: Instruction, place: Callable[[Operand], int], resolver: Resolver) -> Step:
    match instruction:
        case Call(index, args, dst):
            fetch = _fetch([place(arg) for arg in args])
            if dst == VOID:
                return _CALL_VOID, resolver.function(index), fetch, 0
            return _CALL, resolver.function(index), fetch, place(dst)
        case Ret(result):
            return _RET, None, None, place(result)
        case Goto(offset):
            return _GOTO, None, None, offset
        case If(condition, offset):
            return _IF, None, offset, place(condition)
        case _:
            assert_never(instruction)


def _fetch(places: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """What takes the values at these places out of a frame, as a tuple."""
    if not places:
        return lambda frame: ()
    if len(places) == 1:
        [only] = places
        return lambda frame: (frame[only],)
    return itemgetter(*places)


def _value(operand: Operand, resolver: Resolver) -> Any:
    match operand:
        case Register():
            return resolver.machine if operand == MACHINE else None
        case Immediate(value):
            return value
        case ConstantRef(index):
            return resolver.program.constants[index]
        case FunctionRef(index):
            return resolver.function(index)
        case _:
            assert_never(operand)
