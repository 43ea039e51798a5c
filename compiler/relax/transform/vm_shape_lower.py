"""Dimensions that only a call tells are kept in a heap of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import CodegenError, IRError
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.lower.blocks.shape_vars import extent_text
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.base import set_struct_info
from compiler.relax.nodes.binding import BindingBlock
from compiler.relax.nodes.dims import variables
from compiler.relax.nodes.expr import DataTypeImm
from compiler.relax.nodes.symbols import symbols_in
from compiler.relax.normalize import merged
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.transform.vm_builtin_lower import call_builtin, number, with_machine
from compiler.runtime.vm.number_builtins import UNARY
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

NOTHING = r.TupleStructInfo(())
EQUAL_NUMBER, STORE, IGNORE, EQUAL_HEAP = range(4)  # codes of the machine's match_shape
NUMBER, LOAD = range(2)  # codes of the machine's make_shape


@relax_pass("VMShapeLower")
def vm_shape_lower(mod: IRModule, context: PassContext, *, emit_err_ctx: bool = True) -> IRModule:
    """Compute dimensions where a function begins or a match_cast names them, and check arguments.

    They are checked against what is known of them.

        def main(x: R.Tensor((n, 4))):    →    heap = vm.builtin.alloc_shape_heap(2)
            s = R.shape([n * 2])               vm.builtin.match_shape(x, heap, 2, STORE, 0, EQUAL_NUMBER, 4, …)
                                               vm.builtin.compute_extent(heap, 1, "s0*2")
                                               s = vm.builtin.make_shape(heap, 1, LOAD, 1)

    Every dimension that is no number has a slot of the heap, and is computed at most once on each way through the
    function. Expects no dataflow blocks and no functions inside of functions. Errors always say where a check is:
    `emit_err_ctx` is ignored; accepted for compatibility with TVM.
    """
    return rewritten(mod, _Lower)


class _Lower(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._start("")

    def _start(self, name: str) -> None:
        self._function_name = name
        self._heap = r.Var("heap", r.ObjectStructInfo())
        self._slots: dict[n.Var, int] = {}
        self._computed: dict[str, int] = {}  # a slot for each expression, by its text over slots
        self._valid: set[int] = set()  # slots that have their values here
        self._shapes: dict[tuple[int, ...], r.Var] = {}  # shapes made before, by their codes
        self._size = 0

    # ------------------------------------------------------------------------------ functions

    def visit_function_(self, op: r.Function) -> Any:
        if op.body is None:
            return op
        self._start(str(op.attrs.get("global_symbol", "the function")))
        builder = self.builder_
        builder.begin_scope(op.params)
        builder._begin_binding_block()
        symbolic = [param for param in op.params if symbols_in(param.struct_info)]
        self._match(
            [(p, p.struct_info, f"{self._function_name}: argument {p.name_hint!r}") for p in symbolic], kinds=False
        )
        first = builder._end_block()
        body = self.visit_expr(op.body)
        builder.end_scope()
        if self._size:
            heap = builder.normalize(with_machine("alloc_shape_heap", [number(self._size)], r.ObjectStructInfo()))
            first = BindingBlock((r.VarBinding(self._heap, heap), *first.bindings))
        if not first.bindings and body is op.body:
            return op
        made = r.SeqExpr(merged([block for block in (first, *body.blocks) if block.bindings]), body.body, body.span)
        set_struct_info(made, body.struct_info)
        return r.Function(op.params, made, op.ret_struct_info, op.is_pure, op.attrs, op.span)

    def visit_with_new_scope(self, expr: RelaxExpr) -> r.SeqExpr:
        valid, shapes = set(self._valid), dict(self._shapes)
        try:
            return super().visit_with_new_scope(expr)
        finally:
            self._valid, self._shapes = valid, shapes

    # ------------------------------------------------------------------------- what is matched

    def visit_match_cast_(self, binding: r.MatchCast) -> None:
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        what = f"{self._function_name}: the value of {binding.var.name_hint!r}"
        self._match([(value, binding.struct_info, what)], kinds=True)
        copied = self.builder_.normalize(call_builtin("copy", [value], binding.struct_info))
        self.builder_.emit_normalized(r.VarBinding(binding.var, copied, binding.span))

    def _match(self, values: Sequence[tuple[RelaxExpr, r.StructInfo, str]], kinds: bool) -> None:
        """Check values, and keep the dimensions that they are the first to name.
        `kinds` checks types, too."""
        shapes: list[tuple[RelaxExpr, tuple[PrimExpr, ...], str, bool]] = []
        for value, info, what in values:
            self._parts(value, info, what, kinds, shapes)
        later = [self._match_shape(value, dims, what, prim) for value, dims, what, prim in shapes]
        for again in later:
            if again is not None:
                self._match_shape(*again)

    def _parts(
        self, value: RelaxExpr, info: r.StructInfo, what: str, kinds: bool,
        shapes: list[tuple[RelaxExpr, tuple[PrimExpr, ...], str, bool]],
    ) -> None:  # fmt: skip
        """Check what kind of value it is, and note the shapes in it."""
        message = r.StringImm(what)
        match info:
            case r.TensorStructInfo():
                if kinds:
                    args: list[RelaxExpr] = [value, number(info.ndim)]
                    args += [DataTypeImm(info.dtype)] if info.dtype else []
                    self._emit("check_tensor_info", [*args, message])
                if info.dims is not None:
                    shapes.append((value, info.dims, what, False))
            case r.ShapeStructInfo():
                if kinds:
                    self._emit("check_shape_info", [value, number(info.ndim), message])
                if info.values is not None:
                    shapes.append((value, info.values, what, False))
            case r.PrimStructInfo():
                if kinds:
                    self._emit("check_prim_value_info", [value, DataTypeImm(info.dtype), message])
                if info.value is not None and info.dtype == "int64":
                    shapes.append((value, (info.value,), what, True))
            case r.TupleStructInfo():
                if kinds:
                    self._emit("check_tuple_info", [value, number(len(info.fields)), message])
                for index, item in enumerate(info.fields):
                    if kinds or _has_dims(item):
                        field = self.builder_.emit(call_builtin("tuple_getitem", [value, number(index)], item))
                        self._parts(field, item, f"{what}[{index}]", kinds, shapes)
            case r.FuncStructInfo():
                if kinds:
                    self._emit("check_func_info", [value, message])

    def _match_shape(
        self, value: RelaxExpr, dims: Sequence[PrimExpr], what: str, prim: bool
    ) -> tuple[RelaxExpr, Sequence[PrimExpr], str, bool] | None:
        """Match a shape. If dimensions of it cannot be computed yet, return what to match again later."""
        codes: list[int] = []
        again = False
        stored: set[int] = set()
        for size in dims:
            if isinstance(size, n.IntImm):
                codes += [EQUAL_NUMBER, size.value]
            elif isinstance(size, n.Var) and self._slot(size) not in self._valid | stored:
                codes += [STORE, self._slot(size)]
                stored.add(self._slot(size))
            elif all(self._slots.get(var) in self._valid for var in variables(size)):
                codes += [EQUAL_HEAP, self._value(size)]
            else:
                codes += [IGNORE, 0]
                again = True
        numbers = list(map(number, codes))
        message = r.StringImm(what)
        self._size = max(self._size, 1)  # match_shape takes the heap in any case
        if prim:
            self._emit("match_prim_value", [value, self._heap, *numbers, message])
        else:
            self._emit("match_shape", [value, self._heap, number(len(dims)), *numbers, message])
        self._valid |= stored
        return (value, dims, what, prim) if again else None

    def _emit(self, name: str, args: Sequence[RelaxExpr]) -> None:
        self.builder_.emit(call_builtin(name, args, NOTHING), "_")

    # ------------------------------------------------------------------------ what is computed

    def _slot(self, var: n.Var) -> int:
        if var not in self._slots:
            self._slots[var] = self._size
            self._size += 1
        return self._slots[var]

    def _value(self, size: PrimExpr) -> int:
        """The slot that has the value of an expression here.
        The value is computed if it was not before."""
        names = {}
        for var in variables(size):
            if self._slots.get(var) not in self._valid:
                raise IRError(f"{self._function_name}: the dimension {var.name} has no value where it is used")
            names[var] = f"s{self._slots[var]}"
        if isinstance(size, n.Var):
            return self._slots[size]
        try:
            text = extent_text(size, names)
        except CodegenError as error:
            what = f"{self._function_name}: the dimension {size!r} cannot be computed"
            raise IRError(f"{what}: {error.message}") from None
        slot = self._computed.get(text)
        if slot is None:
            slot = self._computed[text] = self._size
            self._size += 1
        if slot not in self._valid:
            self._emit("compute_extent", [self._heap, number(slot), r.StringImm(text)])
            self._valid.add(slot)
        return slot

    def visit_shape_expr_(self, op: r.ShapeExpr) -> Any:
        if all(isinstance(size, n.IntImm) for size in op.values):
            return op
        codes: list[int] = []
        for size in op.values:
            codes += [NUMBER, size.value] if isinstance(size, n.IntImm) else [LOAD, self._value(size)]
        key = tuple(codes)
        if key not in self._shapes:
            args = [self._heap, number(len(op.values)), *map(number, codes)]
            self._shapes[key] = self.builder_.emit(call_builtin("make_shape", args, op.struct_info), "shape")
        return self._shapes[key]

    def _steps(self, value: PrimExpr) -> list[RelaxExpr]:
        """How the machine computes a number that is no integer: see `compiler.runtime.vm.number_builtins`."""
        match value:
            case n.FloatImm():
                return [r.StringImm("number"), r.StringImm(value.dtype), r.PrimValue(value)]
            case n.Cast() if parse_dtype(value.dtype).is_float:
                return [*self._steps(value.value), r.StringImm("cast"), r.StringImm(value.dtype)]
            case n.BinaryOp() if type(value) in _STEPS and parse_dtype(value.dtype).is_float:
                return [*self._steps(value.a), *self._steps(value.b), r.StringImm(_STEPS[type(value)])]
            case n.Call(op=Op(name=name), args=args) if name.removeprefix("tir.") in (*UNARY, "pow"):
                inner = [step for arg in args for step in self._steps(arg)]
                return [*inner, r.StringImm(name.removeprefix("tir."))]
            case _ if parse_dtype(value.dtype).is_int:
                return [r.StringImm("slot"), number(self._value(ops.cast("int64", value)))]
        what = f"{self._function_name}: the number {value!r} cannot be computed"
        raise IRError(what, hint="it is made of dimensions by arithmetic, sqrt, rsqrt, exp, log, pow, floor and ceil")

    def visit_prim_value_(self, op: r.PrimValue) -> Any:
        if isinstance(op.value, n.IntImm | n.FloatImm):
            return op
        if parse_dtype(op.value.dtype).is_float:
            steps = self._steps(op.value)
            self._size = max(self._size, 1)  # compute_number takes the heap in any case
            return self.builder_.emit(call_builtin("compute_number", [self._heap, *steps], op.struct_info), "number")
        slot = self._value(_as_number(op.value))
        args = [self._heap, number(LOAD), number(slot)]
        return self.builder_.emit(call_builtin("make_prim_value", args, op.struct_info), "extent")


_STEPS: dict[type[n.BinaryOp], str] = {
    n.Add: "add",
    n.Sub: "sub",
    n.Mul: "mul",
    n.Div: "div",
    n.Min: "min",
    n.Max: "max",
}


def _as_number(value: PrimExpr) -> PrimExpr:
    """A comparison as 1 or 0 by arithmetic, which the machine computes. Other expressions stay."""
    match value:
        case n.LE(a, b):
            return ops.maximum(ops.minimum(b - a + 1, 1), 0)
        case n.LT(a, b):
            return ops.maximum(ops.minimum(b - a, 1), 0)
        case n.GE(a, b):
            return _as_number(n.LE(b, a))
        case n.GT(a, b):
            return _as_number(n.LT(b, a))
        case n.NE(a, b):
            return ops.minimum(ops.maximum(a - b, b - a), 1)
        case n.EQ(a, b):
            return 1 - _as_number(n.NE(a, b))
        case n.And(a, b):
            return ops.minimum(_as_number(a), _as_number(b))
        case n.Or(a, b):
            return ops.maximum(_as_number(a), _as_number(b))
        case n.Not(a):
            return 1 - _as_number(a)
    return value


def _has_dims(info: r.StructInfo) -> bool:
    match info:
        case r.TensorStructInfo():
            return info.dims is not None
        case r.ShapeStructInfo():
            return info.values is not None
        case r.PrimStructInfo():
            return info.value is not None
        case r.TupleStructInfo():
            return any(map(_has_dims, info.fields))
    return False
