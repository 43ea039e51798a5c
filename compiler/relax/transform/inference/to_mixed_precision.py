"""Products and convolutions are computed of shorter numbers."""

from __future__ import annotations

from typing import Any, Literal

from compiler.errors import ArgumentError
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.op.core.registry import OPERATORS, Operator
from compiler.relax.op.movement.manipulate import astype
from compiler.relax.transform.passes import relax_pass, rewritten

FULL = "float32"
SHORT = ("float16", "bfloat16")


@relax_pass("ToMixedPrecision", opt_level=1)
def to_mixed_precision(
    mod: IRModule, context: PassContext, *, out_dtype: str = FULL, fp16_input_names: list[str] | None = None,
    dtype: Literal["float16", "bfloat16"] = "float16",
) -> IRModule:  # fmt: skip
    """Compute products and convolutions of float16 (or bfloat16), and what follows them elementwise.

    lv = R.matmul(x, w)    →    a = R.astype(x, "float16")
    gv = R.nn.relu(lv)          b = R.astype(w, "float16")
                                lv = R.matmul(a, b, out_dtype="float32")
                                c = R.astype(lv, "float16")
                                gv = R.astype(R.nn.relu(c), "float32")

    Operators say when they take short numbers: always, if their arguments are short ("follow"), or never. `out_dtype`
    is the type that products are summed in. Parameters named in `fp16_input_names` are short themselves. Results of
    functions keep their types.
    """
    if dtype not in SHORT or out_dtype not in (FULL, dtype):
        raise ArgumentError(
            f"ToMixedPrecision: {dtype} summed in {out_dtype}",
            hint=f"dtype may be {' or '.join(SHORT)}; out_dtype {FULL}, or the same",
        )
    names = frozenset(fp16_input_names or ())
    known = {param.name_hint for func in mod.values() if isinstance(func, r.Function) for param in func.params}
    if missing := sorted(names - known):
        raise ArgumentError(f"ToMixedPrecision: no function has a parameter {missing[0]!r}")
    return rewritten(mod, lambda own: _Mixed(own, out_dtype, names, dtype))


class _Mixed(PyExprMutator):
    """Keeps two forms of values: as they were, and short. Each is made when it is first needed."""

    def __init__(self, mod: IRModule, out_dtype: str, names: frozenset[str], dtype: str) -> None:
        super().__init__(mod)
        self._out_dtype = out_dtype
        self._names = names
        self._dtype = dtype
        self._params: frozenset[r.Var] = frozenset()
        self._short: dict[r.Id, r.Var] = {}
        self._full: dict[r.Id, r.Var] = {}
        self._gone: set[r.Id] = set()  # values that there are in the short form only
        self._native: set[r.Id] = set()  # values that are worth being short: results of products, and what follows them

    def visit_function_(self, op: r.Function) -> Any:
        self._params = frozenset(op.params)
        self._short, self._full, self._native, self._gone = {}, {}, set(), set()
        if "Primitive" in op.attrs:
            return op
        return super().visit_function_(op)

    def visit_var_def_(self, var: r.Var) -> r.Var:
        if var not in self._params or var.name_hint not in self._names or not _is_full(var.struct_info_):
            return var
        made = r.Var(var.vid, _with_dtype(var.struct_info, self._dtype), var.span)
        self._short[var.vid] = made
        self._native.add(var.vid)
        self._gone.add(var.vid)
        return made

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        made = super().visit_dataflow_block_(block)
        for forms in (self._short, self._full):
            for vid, var in list(forms.items()):
                if isinstance(var, r.DataflowVar):
                    del forms[vid]
        return made

    def visit_with_new_scope(self, expr: RelaxExpr) -> r.SeqExpr:
        kept = dict(self._short), dict(self._full), set(self._native)
        try:
            return super().visit_with_new_scope(expr)
        finally:
            self._short, self._full, self._native = kept

    # ----------------------------------------------------------------------------- two forms

    def visit_var_(self, op: r.Var) -> Any:
        """The value as it was."""
        if op.vid in self._full:
            return self._full[op.vid]
        if op.vid not in self._gone:
            return super().visit_var_(op)
        self._full[op.vid] = self.builder_.emit(self._cast(self._short[op.vid], FULL))
        return self._full[op.vid]

    def _cast(self, value: Any, dtype: str) -> Any:
        info = r.info_of(value)
        if isinstance(info, r.TupleStructInfo):
            return r.Tuple(tuple([self._cast(self._item(value, i), dtype) for i in range(len(info.fields))]))
        return astype(value, dtype) if isinstance(info, r.TensorStructInfo) and _is_float(info) else value

    def _item(self, value: Any, index: int) -> r.Var:
        return self.builder_.emit(r.TupleGetItem(value, index))

    def _shortened(self, arg: RelaxExpr) -> Any:
        """The short form of an argument."""
        if isinstance(arg, r.Tuple):
            return r.Tuple(tuple([self._shortened(item) for item in arg.fields]))
        if not _is_full(r.info_of(arg)):
            return self.visit_expr(arg)
        if isinstance(arg, r.Constant):
            return astype(arg, self._dtype)
        assert isinstance(arg, r.Var)
        if arg.vid not in self._short:
            self._short[arg.vid] = self.builder_.emit(self._cast(self.visit_expr(arg), self._dtype))
        return self._short[arg.vid]

    # ------------------------------------------------------------------------------ bindings

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        value = binding.value
        made: Any = None
        if isinstance(value, r.Call) and isinstance(value.op, Op) and self._is_short(value):
            made = self._short_call(value)
        elif isinstance(value, r.TupleGetItem) and isinstance(value.tuple_value, r.Var):
            source = value.tuple_value.vid
            if source in self._short and source in self._native and _is_full(binding.var.struct_info_):
                made = r.TupleGetItem(self._short[source], value.index, value.span)
        if made is None:
            super().visit_var_binding_(binding)
            return
        normal = self.builder_.normalize_value(made)
        info = r.info_of(normal)
        if info == binding.var.struct_info_:  # summed in float32, or no numbers at all
            self.builder_.emit_normalized(r.VarBinding(binding.var, normal, binding.span))
            if _is_full(info):
                self._native.add(binding.var.vid)
            return
        if isinstance(binding.var, r.DataflowVar):
            assert info is not None
            var = r.DataflowVar(binding.var.vid, info, binding.var.span)
            self._short[var.vid] = var
            self._gone.add(var.vid)
            self.builder_.emit_normalized(r.VarBinding(var, normal, binding.span))
        else:
            short = self._short[binding.var.vid] = self.builder_.emit(normal)
            full = self.builder_.normalize_value(self._cast(short, FULL))
            self.builder_.emit_normalized(r.VarBinding(binding.var, full, binding.span))
            self._full[binding.var.vid] = binding.var
        self._native.add(binding.var.vid)

    def _is_short(self, call: r.Call) -> bool:
        """Whether a call is computed of short numbers."""
        assert isinstance(call.op, Op)
        operator = OPERATORS.get(call.op.name)
        numbers = [arg for arg in _leaves(call.args) if _is_full(r.info_of(arg))]
        if operator is None or not numbers or operator.precision == "never" or "dtype" in call.attrs:
            return False
        if operator.precision == "always":
            return all(isinstance(arg, r.Var | r.Constant) for arg in numbers)
        short = [isinstance(arg, r.Var) and arg.vid in self._native for arg in numbers]
        free = [isinstance(arg, r.Constant) or arg in self._params for arg in numbers]
        return operator.pure and any(short) and all(a or b for a, b in zip(short, free))

    def _short_call(self, call: r.Call) -> r.Expr:
        assert isinstance(call.op, Op)
        operator: Operator = OPERATORS[call.op.name]
        args = [self._shortened(arg) for arg in call.args]
        attrs = dict(call.attrs)
        if operator.precision == "always" and "out_dtype" in attrs:
            attrs["out_dtype"] = self._out_dtype
        return r.Call(call.op, args, attrs, call.sinfo_args, call.span)


def _leaves(args: tuple[RelaxExpr, ...]) -> list[RelaxExpr]:
    return [leaf for arg in args for leaf in (_leaves(arg.fields) if isinstance(arg, r.Tuple) else [arg])]


def _is_float(info: r.TensorStructInfo) -> bool:
    return info.dtype in (FULL, *SHORT)


def _is_full(info: r.StructInfo | None) -> bool:
    """Whether a value has float32 numbers that may be shortened."""
    if isinstance(info, r.TupleStructInfo):
        return bool(info.fields) and all(map(_is_full, info.fields))
    return isinstance(info, r.TensorStructInfo) and info.dtype == FULL


def _with_dtype(info: r.StructInfo, dtype: str) -> r.StructInfo:
    if isinstance(info, r.TupleStructInfo):
        return r.TupleStructInfo(tuple([_with_dtype(item, dtype) for item in info.fields]))
    assert isinstance(info, r.TensorStructInfo)
    return r.TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim if info.shape is None else -1)
