"""Run bytecode: each function is decoded once into Python calls, then stepped through.

A frame is a list: the function's registers, then the constants and integers that its instructions name. An instruction
fetches all its arguments from the frame in one step. A call of another function of the program puts the frame on a
stack, so recursion of a graph is no recursion of Python's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Any, assert_never

from compiler.runtime.core.device import Device
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.vm import bytecode
from compiler.runtime.vm.builtins import VMError
from compiler.runtime.vm.executable import Program
from compiler.runtime.vm.native_function import NativeFunction

Instrument = Callable[..., Any]
Step = tuple[int, Any, Any, Any]
_CALL, _CALL_VOID, _CALL_CODE, _RET, _GOTO, _IF = range(6)
MOST_NESTED = 100_000


class InstrumentReturn(IntEnum):
    """An instrument's answer: run the call, or leave it out."""

    NO_OP = 0
    SKIP_RUN = 1


class GraphFunction(PackedFunc, ABC):
    """A function of the program, as its instructions call it."""

    native: NativeFunction | None
    """Its machine code, where there is any."""

    @property
    @abstractmethod
    def code(self) -> FunctionCode:
        """The function's instructions, decoded when first asked for."""

    @abstractmethod
    def run(self, args: Sequence[Any]) -> Any:
        """Run it on arguments that fit."""


class Resolver:
    """The names in a program's instructions: functions by number, and the machine."""

    def __init__(
        self, program: Program, machine: Any, find: Callable[[str], Callable[..., Any]], devices: Sequence[Device] = ()
    ) -> None:
        self.program = program
        self.machine = machine
        self._find = find
        self._found: dict[int, Callable[..., Any]] = {}
        self._devices = devices
        self._elsewhere = {
            entry.name: kind for kind, kernels in program.kernels.items() if kind != "cpu" for entry in kernels.entries
        }
        """The type of device of each kernel that no CPU runs."""
        self._copies: dict[tuple[int, str], NDArray] = {}

    def function(self, index: int) -> Callable[..., Any]:
        """The function of a number. Raises VMError for a name that nothing has."""
        found = self._found.get(index)
        if found is None:
            found = self._found[index] = self._find(self.program.functions[index].name)
        return found

    def name(self, index: int) -> str:
        return self.program.functions[index].name

    def device_type(self, index: int) -> str:
        """The type of device that a function's arguments lie on."""
        return self._elsewhere.get(self.name(index), "cpu")

    def constant(self, index: int, device_type: str) -> Any:
        """A constant. An array is copied once to the machine's first device of the type."""
        held = self.program.constants[index]
        if device_type == "cpu" or not isinstance(held, NDArray) or held.device.device_type == device_type:
            return held
        key = index, device_type
        if key not in self._copies:
            device = next(device for device in self._devices if device.device_type == device_type)
            self._copies[key] = held.copyto(device)
        return self._copies[key]


class FunctionCode:
    """A function's instructions, ready to be stepped through."""

    __slots__ = ("_names", "_resolver", "_steps", "_tail", "function")

    def __init__(self, function: bytecode.VMFunction, resolver: Resolver) -> None:
        self.function = function
        self._resolver = resolver
        tail: list[Any] = []
        places: dict[tuple[bytecode.Operand, str], int] = {}

        def place(operand: bytecode.Operand, device_type: str = "cpu") -> int:
            """The place of an operand's value in a frame. A constant is on a device of the given type."""
            if isinstance(operand, bytecode.Register) and operand not in (bytecode.VOID, bytecode.MACHINE):
                return operand.index
            key = operand, device_type
            if key not in places:
                places[key] = function.registers + len(tail)
                tail.append(_value(operand, resolver, device_type))
            return places[key]

        self._steps = [_step(instruction, place, resolver) for instruction in function.code]
        self._names = [
            resolver.name(i.function) if isinstance(i, bytecode.CallInstruction) else "" for i in function.code
        ]
        self._tail = tail

    def frame(self, args: Sequence[Any]) -> list[Any]:
        """A frame that begins with the arguments. Raises VMError if there are not as many as inputs."""
        function = self.function
        if len(args) != function.num_inputs:
            raise VMError(f"{function.name} takes {function.num_inputs} arguments, {len(args)} given")
        return [*args, *[None] * (function.registers - len(args)), *self._tail]

    def run(self, args: Sequence[Any]) -> Any:
        """Run on as many arguments as the function has inputs."""
        frame, steps, at = self.frame(args), self._steps, 0
        callers: list[tuple[list[Any], list[Step], int, int]] = []
        while True:
            kind, function, fetch, to = steps[at]
            if kind == _CALL:
                frame[to] = function(*fetch(frame))
                at += 1
            elif kind == _CALL_VOID:
                function(*fetch(frame))
                at += 1
            elif kind == _CALL_CODE:
                if len(callers) >= MOST_NESTED:
                    raise VMError(f"{self.function.name}: calls are nested more than {MOST_NESTED:,} deep")
                called: FunctionCode = function.code
                inner = called.frame(fetch(frame))
                callers.append((frame, steps, at + 1, to))
                frame, steps, at = inner, called._steps, 0
            elif kind == _RET:
                result = frame[to]
                if not callers:
                    return result
                frame, steps, at, to = callers.pop()
                if to >= 0:
                    frame[to] = result
            elif kind == _IF:
                at += 1 if frame[to] else fetch
            else:
                at += to

    def run_watched(self, args: Sequence[Any], instrument: Instrument) -> Any:
        """Run as `run` does, with an instrument that is called before and after each call."""
        frame, at = self.frame(args), 0
        while True:
            kind, function, fetch, to = self._steps[at]
            if kind in (_CALL, _CALL_VOID, _CALL_CODE):
                given = fetch(frame)
                name = self._names[at]
                result = None
                if instrument(function, name, True, None, *given) != InstrumentReturn.SKIP_RUN:
                    result = function.run(given) if isinstance(function, GraphFunction) else function(*given)
                    instrument(function, name, False, result, *given)
                if kind != _CALL_VOID and to >= 0:
                    frame[to] = result
                at += 1
            elif kind == _RET:
                return frame[to]
            elif kind == _IF:
                at += 1 if frame[to] else fetch
            else:
                at += to


def _step(instruction: bytecode.Instruction, place: Callable[..., int], resolver: Resolver) -> Step:
    match instruction:
        case bytecode.CallInstruction(index, args, dst):
            device_type = resolver.device_type(index)
            fetch = _fetch([place(arg, device_type) for arg in args])
            function = resolver.function(index)
            if isinstance(function, GraphFunction) and function.native is not None:
                return (
                    (_CALL, function.native, fetch, place(dst))
                    if dst != bytecode.VOID
                    else (_CALL_VOID, function.native, fetch, 0)
                )
            if isinstance(function, GraphFunction):
                return _CALL_CODE, function, fetch, -1 if dst == bytecode.VOID else place(dst)
            if dst == bytecode.VOID:
                return _CALL_VOID, function, fetch, 0
            return _CALL, function, fetch, place(dst)
        case bytecode.Ret(result):
            return _RET, None, None, place(result)
        case bytecode.Goto(offset):
            return _GOTO, None, None, offset
        case bytecode.GotoUnless(condition, offset):
            return _IF, None, offset, place(condition)
        case _:
            assert_never(instruction)


def _fetch(places: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return what takes the values at these places out of a frame, as a tuple."""
    if not places:
        return lambda frame: ()
    if len(places) == 1:
        [only] = places
        return lambda frame: (frame[only],)
    return itemgetter(*places)


def _value(operand: bytecode.Operand, resolver: Resolver, device_type: str) -> Any:
    match operand:
        case bytecode.Register():
            return resolver.machine if operand == bytecode.MACHINE else None
        case bytecode.Immediate(value):
            return value
        case bytecode.ConstantRef(index):
            return resolver.constant(index, device_type)
        case bytecode.FunctionRef(index):
            return resolver.function(index)
        case _:
            assert_never(operand)
