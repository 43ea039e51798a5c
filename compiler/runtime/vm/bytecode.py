"""The virtual machine's instructions, and the functions that they make up.

There are four: call a function, return, jump, and jump unless a condition holds. An operand is a register, a small
integer, a constant of the executable or one of its functions. Everything else (memory, shapes, tuples, closures) is
done by functions that the machine brings along: see `compiler.runtime.vm.builtins`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import assert_never

import msgspec

from compiler.errors import ArtifactError
from compiler.runtime.vm.signature import FuncInfo

MAX_INSTRUCTIONS = 1 << 22
MAX_REGISTERS = 1 << 20
MAX_OPERANDS = 1 << 16
MAX_NAME = 1024


class Special(IntEnum):
    """An operand that is no register: nothing, or the machine itself."""

    VOID = 1 << 54
    MACHINE = (1 << 54) + 1


class Register(msgspec.Struct, frozen=True, tag="r", array_like=True):
    """The value of a register; as a destination, where a result goes."""

    index: int

    def __str__(self) -> str:
        return {Special.VOID: "void", Special.MACHINE: "vm"}.get(self.index, f"%{self.index}")  # type: ignore[call-overload,no-any-return]


class Immediate(msgspec.Struct, frozen=True, tag="i", array_like=True):
    """An integer that stands in the instruction."""

    value: int

    def __str__(self) -> str:
        return f"i{self.value}"


class ConstantRef(msgspec.Struct, frozen=True, tag="c", array_like=True):
    """A constant of the executable, by number."""

    index: int

    def __str__(self) -> str:
        return f"c[{self.index}]"


class FunctionRef(msgspec.Struct, frozen=True, tag="f", array_like=True):
    """A function of the executable, by number."""

    index: int

    def __str__(self) -> str:
        return f"f[{self.index}]"


Operand = Register | Immediate | ConstantRef | FunctionRef
VOID = Register(Special.VOID)
MACHINE = Register(Special.MACHINE)


class CallInstruction(msgspec.Struct, frozen=True, tag="call", array_like=True):
    """Call a function with operands. The result goes to a register, or nowhere."""

    function: int
    args: tuple[Operand, ...]
    dst: Register


class Ret(msgspec.Struct, frozen=True, tag="ret", array_like=True):
    """Return a register's value."""

    result: Register


class Goto(msgspec.Struct, frozen=True, tag="goto", array_like=True):
    """Go on `offset` instructions from here."""

    offset: int


class GotoUnless(msgspec.Struct, frozen=True, tag="if", array_like=True):
    """Go on with the next instruction if the register is not 0, else `false_offset` from here."""

    condition: Register
    false_offset: int


Instruction = CallInstruction | Ret | Goto | GotoUnless


class FunctionKind(IntEnum):
    """Where a function's code is."""

    PACKED = 0  # a kernel of the executable, a function that the machine brings along, or a global one, by name
    BYTECODE = 1  # here


class Native(msgspec.Struct, frozen=True):
    """A function's machine code: an entry point of the CPU's kernels for its arrays and numbers.

    `results` has an entry for each array of the function's result, in order. It is the number of the entry point's
    result, or -1 - the number of the argument that it is.
    """

    entry: str
    results: tuple[int, ...]


class VMFunction(msgspec.Struct, frozen=True):
    """A function by name. A packed function has only its name; `code` is empty.

    A function with machine code has instructions too. They run when calls are watched or measured one by one.
    """

    name: str
    kind: FunctionKind
    param_names: tuple[str, ...] = ()
    registers: int = 0
    code: tuple[Instruction, ...] = ()
    signature: FuncInfo | None = None
    native: Native | None = None

    @property
    def num_inputs(self) -> int:
        return len(self.param_names)


def check_function(function: VMFunction, functions: int, constants: int) -> None:
    """Raise ArtifactError unless every operand and jump of the function stays where it may."""

    def wrong(at: int, what: str) -> ArtifactError:
        return ArtifactError(f"function {function.name!r}, instruction {at}: {what}")

    if not 0 < len(function.name) <= MAX_NAME:
        raise ArtifactError(f"a function's name has 1 to {MAX_NAME} characters")
    if function.kind is FunctionKind.PACKED:
        if function.code or function.param_names or function.native:
            raise ArtifactError(f"function {function.name!r} is packed, and has instructions")
        return
    if not function.num_inputs <= function.registers <= MAX_REGISTERS:
        raise ArtifactError(f"function {function.name!r} has {function.registers} registers")
    if not 0 < len(function.code) <= MAX_INSTRUCTIONS:
        raise ArtifactError(f"function {function.name!r} has {len(function.code)} instructions")
    for at, instruction in enumerate(function.code):
        for operand in operands(instruction):
            match operand:
                case Register(index):
                    if not 0 <= index < function.registers and operand not in (VOID, MACHINE):
                        raise wrong(at, f"there is no register {index}")
                case ConstantRef(index):
                    if not 0 <= index < constants:
                        raise wrong(at, f"there is no constant {index}")
                case FunctionRef(index):
                    if not 0 <= index < functions:
                        raise wrong(at, f"there is no function {index}")
                case Immediate():
                    pass
                case _:
                    assert_never(operand)
        match instruction:
            case CallInstruction(callee, args, _):
                if not 0 <= callee < functions:
                    raise wrong(at, f"there is no function {callee}")
                if len(args) > MAX_OPERANDS:
                    raise wrong(at, f"{len(args)} operands")
            case Goto(offset) | GotoUnless(_, offset):
                if not 0 <= at + offset < len(function.code):
                    raise wrong(at, f"a jump by {offset} leaves the function")
            case Ret():
                pass
            case _:
                assert_never(instruction)
    if not isinstance(function.code[-1], Ret | Goto):
        raise ArtifactError(f"function {function.name!r} does not end with a return")


def operands(instruction: Instruction) -> Iterator[Operand]:
    """The operands of an instruction, its destination last."""
    match instruction:
        case CallInstruction(_, args, dst):
            yield from args
            yield dst
        case Ret(register) | GotoUnless(register, _):
            yield register
        case Goto():
            return
        case _:
            assert_never(instruction)
