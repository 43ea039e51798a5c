"""Writing an executable instruction by instruction: `ExecBuilder`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from msgspec.structs import replace

from compiler.artifact import Artifact
from compiler.errors import ArgumentError, IRError
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.values import DataType, ShapeTuple
from compiler.runtime.vm import bytecode
from compiler.runtime.vm.executable import Constant, Program
from compiler.runtime.vm.signature import FuncInfo
from compiler.runtime.vm.vm_executable import VMExecutable


class VMFuncScope:
    """The function that instructions are written to, for a `with` statement."""

    def __init__(self, exit_callback: Callable[[], None]) -> None:
        self._exit = exit_callback

    def __enter__(self) -> VMFuncScope:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._exit()


class _Open:
    """A function while it is written."""

    def __init__(self, name: str, param_names: tuple[str, ...], signature: FuncInfo | None) -> None:
        self.name = name
        self.param_names = param_names
        self.signature = signature
        self.registers = len(param_names)
        self.code: list[bytecode.Instruction] = []

    def uses(self, operands: Iterable[bytecode.Operand]) -> None:
        for operand in operands:
            if isinstance(operand, bytecode.Register) and operand not in (bytecode.VOID, bytecode.MACHINE):
                self.registers = max(self.registers, operand.index + 1)


class ExecBuilder:
    """Builds an executable. `with builder.function("main", num_inputs=2): …` writes a function.

    Operands come from `r` (a register; a function's inputs are its first ones), `imm` (an integer), `c` (a constant)
    and `f` (a function). Functions are called by name: one written here, a kernel, one of the machine's own
    ("vm.builtin.…"), or a global function.
    """

    def __init__(self) -> None:
        self._functions: list[bytecode.VMFunction] = []
        self._by_name: dict[str, int] = {}
        self._constants: list[Constant] = []
        self._known: dict[tuple[type, object], int] = {}
        self._open: _Open | None = None

    # -- operands --------------------------------------------------------------------------------
    def r(self, idx: int) -> bytecode.Register:
        """A register, counted from 0. Raises ArgumentError for a negative number."""
        if isinstance(idx, bool) or not isinstance(idx, int) or idx < 0:
            raise ArgumentError(f"a register has a number from 0 on, not {idx!r}")
        return bytecode.Register(idx)

    def imm(self, value: int) -> bytecode.Immediate:
        """An integer that stands in the instruction."""
        return bytecode.Immediate(int(value))

    def c(self, value: object) -> bytecode.ConstantRef:
        """A constant: an array, a shape (also a tuple or list of integers), a string, a dtype or a number.

        Equal strings, shapes, dtypes and numbers, and the same array, are kept once.
        """
        constant = _constant(value)
        key: tuple[type, object] = (type(constant), id(constant) if isinstance(constant, NDArray) else constant)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self._constants)
            self._constants.append(constant)
        return bytecode.ConstantRef(index)

    def f(self, name: str) -> bytecode.FunctionRef:
        """A function by name, as an operand. It need not be written yet."""
        return bytecode.FunctionRef(self.declare_function(name))

    def void_arg(self) -> bytecode.Register:
        """The destination of a call whose result nobody wants; as an argument, nothing."""
        return bytecode.VOID

    def vm_state(self) -> bytecode.Register:
        """The machine itself, which some of its own functions take first."""
        return bytecode.MACHINE

    # -- functions -------------------------------------------------------------------------------
    def declare_function(self, func_name: str, kind: bytecode.FunctionKind = bytecode.FunctionKind.PACKED) -> int:
        """The number of the function called `func_name`, given at its first mention."""
        index = self._by_name.get(func_name)
        if index is None:
            index = self._by_name[func_name] = len(self._functions)
            self._functions.append(bytecode.VMFunction(func_name, bytecode.FunctionKind.PACKED))
        return index

    def function(
        self, func_name: str, num_inputs: int | None = 0, param_names: list[str] | None = None, *,
        signature: FuncInfo | None = None,
    ) -> VMFuncScope:  # fmt: skip
        """Begin a function; a `with` statement ends it.

        Raises IRError inside another, or for a name taken before. `param_names` default to "param_0" and so on.
        `signature` says what the function takes and gives.
        """
        if self._open is not None:
            raise IRError(f"function {func_name!r} begins inside function {self._open.name!r}")
        count = num_inputs if num_inputs is not None else len(param_names or ())
        names = tuple(param_names) if param_names is not None else tuple(f"param_{i}" for i in range(count))
        if len(names) != count:
            raise ArgumentError(f"function {func_name!r} has {count} inputs, and {len(names)} names for them")
        index = self._by_name.get(func_name)
        if index is not None and self._functions[index].kind is not bytecode.FunctionKind.PACKED:
            raise IRError(f"there is a function {func_name!r} already")
        self._open = _Open(func_name, names, signature)
        return VMFuncScope(self._close)

    def _close(self) -> None:
        made, self._open = self._writing(), None
        index = self.declare_function(made.name)
        self._functions[index] = bytecode.VMFunction(
            made.name,
            bytecode.FunctionKind.BYTECODE,
            made.param_names,
            made.registers,
            tuple(made.code),
            made.signature,
        )

    def _writing(self) -> _Open:
        if self._open is None:
            raise IRError("no function is being written", hint="`with builder.function(name):` begins one")
        return self._open

    def _emit(self, instruction: bytecode.Instruction, *operands: bytecode.Operand) -> None:
        function = self._writing()
        function.uses(operands)
        function.code.append(instruction)

    # -- instructions ----------------------------------------------------------------------------
    def emit_call(self, name: str, args: Any = None, dst: bytecode.Register | None = None) -> None:
        """Call a function by name.
        `args` are operands, or values that become constants (numbers: `imm` or `c`)."""
        given = tuple(arg if isinstance(arg, bytecode.Operand) else self.c(arg) for arg in args or ())
        to = bytecode.VOID if dst is None else dst
        self._emit(bytecode.CallInstruction(self.declare_function(name), given, to), *given, to)

    def emit_ret(self, result: bytecode.Register) -> None:
        """Return a register's value."""
        self._emit(bytecode.Ret(result), result)

    def emit_goto(self, pc_offset: int) -> None:
        """Go on `pc_offset` instructions from this one."""
        self._emit(bytecode.Goto(pc_offset))

    def emit_if(self, cond: bytecode.Register, false_offset: int) -> None:
        """Go on with the next instruction where `cond` is not 0, else `false_offset` from this one."""
        self._emit(bytecode.GotoUnless(cond, false_offset), cond)

    # -- the result ------------------------------------------------------------------------------
    def get(self) -> VMExecutable:
        """The executable. Raises ArtifactError if a jump or an operand leads nowhere."""
        return VMExecutable(self.program())

    def program(
        self, kernels: Mapping[str, Artifact] | None = None, target: str = "", meta: Mapping[str, str] | None = None,
        native: Mapping[str, bytecode.Native] | None = None, interpreted: Sequence[str] = (),
    ) -> Program:  # fmt: skip
        """Return what was written, with the kernels it calls.
        `native` says which functions are machine code as well, and `interpreted` why others are not."""
        if self._open is not None:
            raise IRError(f"function {self._open.name!r} is not finished")
        known = native or {}
        functions = [replace(f, native=known[f.name]) if f.name in known else f for f in self._functions]
        constants = tuple(self._constants)
        return Program(tuple(functions), constants, dict(kernels or {}), target, dict(meta or {}), tuple(interpreted))


def _constant(value: object) -> Constant:
    match value:
        case NDArray() | ShapeTuple() | DataType() | str() | float():
            return value
        case bool() | int():
            return int(value)
        case np.ndarray() | np.generic():
            return array(value)
        case tuple() | list():
            return ShapeTuple(value)
        case _:
            raise ArgumentError(
                f"a constant of an executable cannot be a {type(value).__name__}",
                hint="it can be an array, a shape, a string, a dtype or a number",
            )
