"""Bytecode of graph functions that the passes have lowered.

Such a function holds only calls (of kernels, of the machine's functions, of other functions), conditions, tuples and
names. Each value gets a register, which is used again when the value is dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.lower.blocks.shape_vars import extent_text, names_for
from compiler.relax import nodes as r
from compiler.relax.vm_codegen.registers import DraftInstruction, with_few_registers
from compiler.runtime.core.host import ALIGNMENT
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.values import DataType
from compiler.runtime.vm import signature as vm
from compiler.runtime.vm.bytecode import VOID, ConstantRef, Operand, Register
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def write_functions(mod: IRModule, builder: ExecBuilder) -> Constants:
    """Write the graph functions of `mod` with `builder`. Returns the constants that they use.

    Raises CodegenError for what the passes left to be lowered.
    """
    constants = Constants(builder)
    for name, func in mod.items():
        if isinstance(func, r.Function) and func.body is not None:
            _Writer(builder, name.name_hint, func, constants).write()
    return constants


class Constants:
    """The arrays of an executable. Equal ones are kept once, aligned as kernels want them."""

    def __init__(self, builder: ExecBuilder) -> None:
        self._builder = builder
        self._arrays: dict[str, NDArray] = {}

    def operand(self, constant: r.Constant) -> ConstantRef:
        """The number of an array in the executable, as an operand."""
        key = str(constant.content)
        if key not in self._arrays:
            data = constant.data
            aligned = not data.is_host or constant.array.ctypes.data % ALIGNMENT == 0
            self._arrays[key] = data if aligned else array(constant.array)
        return self._builder.c(self._arrays[key])


class _Writer:
    """Writes one function.
    Instructions are collected first, so that jumps over them know their number."""

    def __init__(self, builder: ExecBuilder, name: str, func: r.Function, constants: Constants) -> None:
        self._builder = builder
        self._constants = constants
        self._name = name
        self._func = func
        self._code: list[DraftInstruction] = []
        self._values: dict[r.Var, Operand] = {}
        self._registers = 0
        self._read = {node for node in walk(func.body) if isinstance(node, r.Var)}

    def write(self) -> None:
        func, builder = self._func, self._builder
        names = _names(func)
        for param in func.params:
            self._values[param] = self._new()
        self._code.append(self._return(self._sequence(func.body)))
        with builder.function(self._name, len(names), names, signature=signature_of(func)):
            for note in with_few_registers(self._code, len(names)):
                self._emit(note)

    def _emit(self, note: DraftInstruction) -> None:
        if note.is_call:
            self._builder.emit_call(note.name, note.args, note.to)
            return
        if note.name == "goto":
            self._builder.emit_goto(note.offset)
            return
        (register,) = note.args
        assert isinstance(register, Register)
        if note.name == "ret":
            self._builder.emit_ret(register)
        else:
            self._builder.emit_if(register, note.offset)

    def _new(self) -> Register:
        self._registers += 1
        return Register(self._registers - 1)

    def _return(self, value: Operand) -> DraftInstruction:
        return DraftInstruction("ret", (self._in_register(value),), is_call=False)

    def _in_register(self, value: Operand) -> Register:
        return value if isinstance(value, Register) else self._call("vm.builtin.copy", [value])

    def _call(self, name: str, args: list[Operand], to: Register | None = None) -> Register:
        """Note a call whose result goes to `to`, or to a new register."""
        made = self._new() if to is None else to
        self._code.append(DraftInstruction(name, tuple(args), made))
        return made

    # ---------------------------------------------------------------------------- structure

    def _sequence(self, seq: r.SeqExpr) -> Operand:
        for block in seq.blocks:
            for binding in block.bindings:
                self._binding(binding)
        return self._value(seq.body)

    def _binding(self, binding: r.Binding) -> None:
        if isinstance(binding, r.MatchCast):
            raise self._unlowered(binding.value, "a match_cast", "VMShapeLower")
        value = binding.value
        if isinstance(value, r.Call) and isinstance(value.op, Op) and value.op.name == "relax.vm.kill_object":
            self._kill(value.args[0])
        elif isinstance(value, r.Call) and binding.var not in self._read:
            self._call_of(value, VOID)
        else:
            self._values[binding.var] = self._value(value)

    def _kill(self, value: RelaxExpr) -> None:
        held = self._value(value)
        if isinstance(held, Register):
            self._call("vm.builtin.null_value", [], held)

    def _value(self, expr: RelaxExpr) -> Operand:
        """Where the value of an expression is."""
        builder = self._builder
        match expr:
            case r.Var():
                if expr not in self._values:
                    raise CodegenError(f"{self._name}: the variable {expr.name_hint} has no value where it is used")
                return self._values[expr]
            case r.Constant():
                return self._constants.operand(expr)
            case r.ShapeExpr():
                return builder.c(tuple([self._number(size, expr) for size in expr.values]))
            case r.PrimValue():
                number = self._number(expr.value, expr)
                return builder.c(number) if isinstance(number, float) else builder.imm(number)
            case r.StringImm():
                return builder.c(str(expr.value))
            case r.DataTypeImm():
                return builder.c(DataType(expr.value))
            case r.ExternFunc():
                return builder.f(expr.global_symbol)
            case GlobalVar():
                return builder.f(expr.name_hint)
            case r.Tuple():
                return self._call("vm.builtin.make_tuple", [self._value(item) for item in expr.fields])
            case r.TupleGetItem():
                return self._call("vm.builtin.tuple_getitem", [self._value(expr.tuple_value), builder.imm(expr.index)])
            case r.Call():
                return self._call_of(expr)
            case r.If():
                return self._if(expr)
            case r.SeqExpr():
                return self._sequence(expr)
        raise self._unlowered(expr, r.describe(expr), "LambdaLift" if isinstance(expr, r.Function) else None)

    def _number(self, value: n.PrimExpr, around: RelaxExpr) -> Any:
        if isinstance(value, n.IntImm | n.FloatImm):
            return value.value
        raise self._unlowered(around, f"the dimension {value!r}", "VMShapeLower")

    def _if(self, expr: r.If) -> Register:
        condition = self._call("vm.builtin.read_if_cond", [self._value(expr.cond)])
        result = self._new()
        branches: list[list[DraftInstruction]] = []
        for branch in (expr.true_branch, expr.false_branch):
            kept, self._code = self._code, []
            self._call("vm.builtin.copy", [self._sequence(branch)], result)
            branches.append(self._code)
            self._code = kept
        yes, no = branches
        self._code.append(DraftInstruction("if", (condition,), offset=len(yes) + 2, is_call=False))
        self._code += yes
        self._code.append(DraftInstruction("goto", offset=len(no) + 1, is_call=False))
        self._code += no
        return result

    # -------------------------------------------------------------------------------- calls

    def _call_of(self, call: r.Call, to: Register | None = None) -> Register:
        match call.op:
            case Op(name="relax.call_builtin_with_ctx"):
                callee, args = call.args
                assert isinstance(callee, r.ExternFunc)
                fields = args.fields if isinstance(args, r.Tuple) else ()
                return self._call(callee.global_symbol, [self._builder.vm_state(), *map(self._value, fields)], to)
            case Op():
                raise self._unlowered(call, f"the operator {call.op.name}", None)
            case r.ExternFunc():
                return self._call(call.op.global_symbol, self._arguments(call), to)
            case GlobalVar():
                return self._call(call.op.name_hint, self._arguments(call), to)
        given = [self._builder.vm_state(), self._value(call.op), *self._arguments(call)]
        return self._call("vm.builtin.invoke_closure", given, to)

    def _arguments(self, call: r.Call) -> list[Operand]:
        return [self._value(arg) for arg in call.args]

    def _unlowered(self, expr: RelaxExpr, what: str, by: str | None) -> CodegenError:
        where = at(getattr(expr, "span", None))
        hint = f"the pass {by} lowers it" if by else "shapes and element types must be known, or the operator lowered"
        return CodegenError(f"{self._name}: no bytecode can be written for {what}{where}", hint=hint)


def _names(func: r.Function) -> list[str]:
    """The names of the parameters, each once."""
    found: list[str] = []
    for param in func.params:
        name, count = param.name_hint, 0
        while name in found:
            count += 1
            name = f"{param.name_hint}_{count}"
        found.append(name)
    return found


Names = Mapping[n.Var, str]


def signature_of(func: r.Function) -> vm.FuncInfo:
    """The signature of a graph function; each dimension has a name of its own."""
    names = names_for(func.symbolic_vars())
    params = tuple([_info(param.struct_info, names) for param in func.params])
    return vm.FuncInfo(params, _info(func.ret_struct_info, names))


def _info(info: r.StructInfo, names: Names) -> vm.Info:
    match info:
        case r.TensorStructInfo():
            dims = _dims(info.dims, names)
            device = "" if info.vdevice is None else f"{info.vdevice.target.kind}:{info.vdevice.vdevice_id}"
            return vm.SignatureTensor(info.dtype, dims, info.ndim if dims is None else len(dims), device)
        case r.ShapeStructInfo():
            values = _dims(info.values, names)
            return vm.ShapeInfo(values, info.ndim if values is None else len(values))
        case r.PrimStructInfo():
            known = None if info.value is None or info.dtype != "int64" else _dims((info.value,), names)
            return vm.PrimInfo(info.dtype, None if known is None else str(known[0]))
        case r.TupleStructInfo():
            return vm.TupleInfo(tuple([_info(item, names) for item in info.fields]))
        case r.FuncStructInfo():
            params = None if info.params is None else tuple([_info(item, names) for item in info.params])
            return vm.FuncInfo(params, _info(info.ret, names))
    return vm.ObjectInfo()


def _dims(dims: tuple[PrimExpr, ...] | None, names: Names) -> tuple[int | str, ...] | None:
    """Dimensions as numbers and text; None where one of them cannot be written as text."""
    if dims is None:
        return None
    try:
        return tuple([size.value if isinstance(size, n.IntImm) else extent_text(size, names) for size in dims])
    except CodegenError:
        return None
