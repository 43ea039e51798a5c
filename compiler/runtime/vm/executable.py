"""An executable of the virtual machine.

Functions, constants and kernels, ready to be run, saved or read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from compiler.artifact import Artifact
from compiler.dtype import parse_dtype
from compiler.errors import ArtifactError, IRError
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.values import DataType, ShapeTuple
from compiler.runtime.vm import bytecode
from compiler.runtime.vm.signature import check_info

Constant = NDArray | ShapeTuple | DataType | str | int | float
MAX_FUNCTIONS = 1 << 20


@dataclass(frozen=True, eq=False)
class Program:
    """The content of an executable: functions and constants by number, kernels by kind of device.

    Each of `kernels` is the artifact for one type of device ("cpu", "cuda"); its entry points are the kernels. `target`
    is the canonical text of what it was built for, empty for programs without kernels. `interpreted` has the functions
    of a build for machine code that stayed bytecode, and why. `modules` are those that the executable imports, in a
    file. Raises ArtifactError if an instruction names what is not there.
    """

    functions: tuple[bytecode.VMFunction, ...]
    constants: tuple[Constant, ...] = ()
    kernels: Mapping[str, Artifact] = field(default_factory=dict)
    target: str = ""
    meta: Mapping[str, str] = field(default_factory=dict)
    interpreted: tuple[str, ...] = ()
    modules: tuple[Artifact, ...] = ()

    def __post_init__(self) -> None:
        if len(self.functions) > MAX_FUNCTIONS:
            raise ArtifactError(f"{len(self.functions)} functions are more than {MAX_FUNCTIONS}")
        names = [function.name for function in self.functions]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ArtifactError(f"two functions have one name: {', '.join(twice)}")
        for function in self.functions:
            bytecode.check_function(function, len(self.functions), len(self.constants))
            if function.signature is not None:
                check_info(function.signature)
            if function.native is not None:
                self._check_native(function.name, function.native)
        for constant in self.constants:
            _check_constant(constant)

    def _check_native(self, name: str, native: bytecode.Native) -> None:
        kernels = self.kernels.get("cpu")
        entry = None if kernels is None else next((e for e in kernels.entries if e.name == native.entry), None)
        if entry is None or not entry.is_graph:
            raise ArtifactError(f"function {name!r} has no machine code: there is no entry {native.entry!r} of a graph")
        arguments = len(entry.args) - entry.results
        if any(not -arguments <= number < entry.results for number in native.results):
            raise ArtifactError(f"function {name!r} gives what its machine code has not")

    def function(self, name: str) -> bytecode.VMFunction | None:
        """The function called `name` that has instructions, None where there is none."""
        for function in self.functions:
            if function.name == name and function.kind is not bytecode.FunctionKind.PACKED:
                return function
        return None

    @property
    def names(self) -> list[str]:
        """The functions that can be called from outside."""
        return [function.name for function in self.functions if function.kind is not bytecode.FunctionKind.PACKED]


def _check_constant(constant: Constant) -> None:
    if isinstance(constant, DataType):
        try:
            parse_dtype(str(constant))
        except IRError as error:
            raise ArtifactError(f"a constant is {error.message}") from None


def as_text(program: Program) -> str:
    """The instructions as a listing, one a line."""
    blocks = []
    for function in program.functions:
        if function.kind is bytecode.FunctionKind.PACKED:
            continue
        lines = [f"@{function.name}({', '.join(function.param_names)}):"]
        for instruction in function.code:
            match instruction:
                case bytecode.CallInstruction(callee, args, dst):
                    name = program.functions[callee].name
                    given = ", ".join(map(str, args)) or "-"
                    lines.append(f"  call  {name:<32} in: {given:<24} dst: {dst}".rstrip())
                case bytecode.Ret(result):
                    lines.append(f"  ret   {result}")
                case bytecode.Goto(offset):
                    lines.append(f"  goto  {offset}")
                case bytecode.GotoUnless(condition, offset):
                    lines.append(f"  if    {condition}, else {offset}")
                case _:
                    assert_never(instruction)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def as_python(program: Program) -> str:
    """The program as Python that makes it again through `ExecBuilder`.
    Arrays stand as calls of `nd.array`."""
    lines = ["ib = relax.ExecBuilder()"]
    for function in program.functions:
        if function.kind is bytecode.FunctionKind.PACKED:
            continue
        given = f"{function.name!r}, num_inputs={function.num_inputs}, param_names={list(function.param_names)!r}"
        lines.append(f"with ib.function({given}):")
        for instruction in function.code:
            match instruction:
                case bytecode.CallInstruction(callee, args, dst):
                    name = program.functions[callee].name
                    shown = ", ".join(_python_operand(arg, program) for arg in args)
                    to = "" if dst == bytecode.VOID else f", dst={_python_operand(dst, program)}"
                    lines.append(f"    ib.emit_call({name!r}, args=[{shown}]{to})")
                case bytecode.Ret(result):
                    lines.append(f"    ib.emit_ret({_python_operand(result, program)})")
                case bytecode.Goto(offset):
                    lines.append(f"    ib.emit_goto({offset})")
                case bytecode.GotoUnless(condition, offset):
                    lines.append(f"    ib.emit_if({_python_operand(condition, program)}, {offset})")
                case _:
                    assert_never(instruction)
    lines.append("ex = ib.get()")
    return "\n".join(lines) + "\n"


def _python_operand(operand: bytecode.Operand, program: Program) -> str:
    match operand:
        case bytecode.Register() if operand == bytecode.VOID:
            return "ib.void_arg()"
        case bytecode.Register() if operand == bytecode.MACHINE:
            return "ib.vm_state()"
        case bytecode.Register(index):
            return f"ib.r({index})"
        case bytecode.Immediate(value):
            return f"ib.imm({value})"
        case bytecode.FunctionRef(index):
            return f"ib.f({program.functions[index].name!r})"
        case bytecode.ConstantRef(index):
            return f"ib.c({_python_constant(program.constants[index])})"
        case _:
            assert_never(operand)


def _python_constant(constant: Constant) -> str:
    if isinstance(constant, NDArray):
        return f"nd.array({constant.numpy().tolist()!r}, dtype={constant.dtype!r})"
    if isinstance(constant, ShapeTuple):
        return f"ShapeTuple({list(constant)!r})"
    if isinstance(constant, DataType):
        return f"DataType({str(constant)!r})"
    return repr(constant)


def stats(program: Program) -> str:
    """How many functions, instructions, constants and kernels there are, and the bytes of the constants."""
    kinds = {kind: [f.name for f in program.functions if f.kind is kind] for kind in bytecode.FunctionKind}
    arrays = [c for c in program.constants if isinstance(c, NDArray)]
    count = sum(len(f.code) for f in program.functions)
    lines = [
        f"functions: {len(program.names)} ({', '.join(program.names[:20])})",
        f"instructions: {count:,}",
        f"called by name: {len(kinds[bytecode.FunctionKind.PACKED]):,}",
        f"constants: {len(program.constants):,}, of which {len(arrays):,} arrays with {total_bytes(arrays):,} bytes",
        *(f"kernels for {device}: {len(made.entries):,}" for device, made in program.kernels.items()),
        *([f"target: {program.target}"] if program.target else []),
        *(
            [f"machine code: {', '.join(native)}"]
            if (native := [f.name for f in program.functions if f.native])
            else []
        ),
        *(f"through the interpreter: {line}" for line in program.interpreted),
    ]
    return "".join(f"{line}\n" for line in ["Executable:", *(f"  {line}" for line in lines)])


def total_bytes(arrays: Sequence[NDArray]) -> int:
    """The bytes of arrays, each counted once however often it occurs."""
    return sum(array.nbytes for array in {id(array): array for array in arrays}.values())
