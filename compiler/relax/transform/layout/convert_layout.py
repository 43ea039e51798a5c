"""Tensors lie in memory as operators like them best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.op.core.layout import Layout, LayoutUse, Lies, as_written
from compiler.relax.op.core.registry import OPERATORS, RefusedPart
from compiler.relax.transform.layout.stored import Emit, moved, permuted
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.suggest import closest

Desired = Mapping[str, Sequence[str]]


@relax_pass("ConvertLayout")
def convert_layout(
    mod: IRModule,
    context: PassContext,
    *,
    desired_layouts: Desired,
    layout_cb: Callable[[r.Call], Desired | None] | None = None,
) -> IRModule:
    """Make operators work on the layouts that are asked for, and the operators between them follow.

        with R.dataflow():                         with R.dataflow():
            gv = R.nn.conv2d(x, w)                     lv = R.permute_dims(x, [0, 2, 3, 1])
            gv1 = R.nn.relu(gv)                →       lv1 = R.permute_dims(w, [0, 2, 3, 1])
            R.output(gv1)                              lv2 = R.nn.conv2d(lv, lv1, data_layout="NHWC", …)
                                                       lv3 = R.nn.relu(lv2)
                                                       gv1 = R.permute_dims(lv3, [0, 3, 1, 2])
                                                       R.output(gv1)

    `desired_layouts` has layouts by operator: {"relax.nn.conv2d": ["NHWC", "OHWI"]}, of the arguments and, where it
    is not that of the first, of the result. `layout_cb(call)` decides for a single call: it gives such a mapping,
    or None. Only dataflow blocks change; what leaves a block lies as it was written. Two permutations of dimensions
    in a row become one, or none.
    """
    for name in desired_layouts:
        if name not in OPERATORS:
            raise ArgumentError(f"there is no operator {name!r}", hint=closest(name, OPERATORS))
    return rewritten(mod, lambda own: _Converter(own, desired_layouts, layout_cb))


@dataclass(slots=True)
class _Held:
    """A tensor: how it lies where it was computed (None: as written), and what holds it in each layout."""

    first: Layout | None
    versions: dict[Layout | None, RelaxExpr]


class _Converter(PyExprMutator):
    """Rewrites dataflow blocks. A plain visit of a variable returns it as it was written."""

    def __init__(self, mod: IRModule, desired: Desired, ask: Callable[[r.Call], Desired | None] | None) -> None:
        super().__init__(mod)
        self._desired = desired
        self._ask = ask
        self._inside = False
        self._moved: dict[r.Var, _Held] = {}  # tensors of the block that lie otherwise than written
        self._parts: dict[r.Var, list[_Held]] = {}  # tuples of the block whose fields do
        self._tuples: dict[r.Var, r.Tuple] = {}  # tuples of the block that were put together
        self._others: dict[r.Var, _Held] = {}  # any other tensor that was asked for in a layout

    def visit_function_(self, op: r.Function) -> Any:
        made: Any = super().visit_function_(op)
        return made if made is op else remove_all_unused(made)

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        kept = self._moved, self._parts, self._tuples, self._others, self._inside
        self._moved, self._parts, self._tuples, self._others, self._inside = {}, {}, {}, {}, True
        try:
            return super().visit_dataflow_block_(block)
        finally:
            self._moved, self._parts, self._tuples, self._others, self._inside = kept

    def visit_var_(self, op: r.Var) -> Any:
        if op in self._moved:
            return self._version(self._moved[op], None)
        if op in self._parts:
            fields = [self._version(held, None) for held in self._parts[op]]
            return self.builder_.emit(r.Tuple(tuple(fields)), op.name_hint)
        return super().visit_var_(op)

    # ----------------------------------------------------------------------------- bindings

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        var, value = binding.var, binding.value
        held = self._known(value) if self._inside and isinstance(var, r.DataflowVar) else None
        if held is not None:
            self._moved[var] = held
        elif not self._inside or not isinstance(value, r.Call) or not self._call(var, value):
            if isinstance(value, r.Tuple):
                self._tuples[var] = value
            super().visit_var_binding_(binding)

    def _known(self, value: RelaxExpr) -> _Held | None:
        """The tensor that a name or a field stands for, if its layout is not as written."""
        if isinstance(value, r.TupleGetItem) and isinstance(value.tuple_value, r.Var):
            whole = value.tuple_value
            if whole in self._parts:
                return self._parts[whole][value.index]
            value = self._tuples[whole].fields[value.index] if whole in self._tuples else value
        return self._moved.get(value) if isinstance(value, r.Var) else None

    def _call(self, var: r.Var, call: r.Call) -> bool:
        """Rewrite a call as its operator's rule says. False if it stays as it is."""
        operator = OPERATORS.get(call.op.name) if isinstance(call.op, Op) else None
        if operator is None or isinstance(operator.layout, RefusedPart):
            return False
        asked = self._desired if self._ask is None else {**self._desired, **(self._ask(call) or {})}
        use = LayoutUse(call, tuple(map(self._lies, call.args)), asked)
        found = operator.layout(use)
        if found == as_written(use):
            return False
        args = [
            found.args[place] if place in found.args else self._argument(arg, lies)
            for place, (arg, lies) in enumerate(zip(call.args, found.inputs))
        ]
        if operator.name == "relax.permute_dims":
            self._bind(var, permuted(self, args[0], list(found.attrs["axes"]), self.builder_.normalize))
            return True
        anew = self.builder_.normalize(r.Call(call.op, args, {**call.attrs, **found.attrs}, call.sinfo_args, call.span))
        self._define(var, anew, found.outputs)
        return True

    def _define(self, var: r.Var, value: RelaxExpr, outputs: tuple[Layout | None, ...]) -> None:
        """Bind a value whose tensors lie as `outputs`."""
        if all(lies is None or lies.is_identity for lies in outputs):
            self._bind(var, value)
            return
        made = self.builder_.emit(value, var.name_hint)
        if isinstance(r.info_of(var), r.TupleStructInfo):
            fields = [self.builder_.emit(r.TupleGetItem(made, place)) for place in range(len(outputs))]
            held = [_Held(lies, {lies: field}) for field, lies in zip(fields, outputs)]
            self._parts[var] = held
            if not isinstance(var, r.DataflowVar):
                del self._parts[var]
                self._bind(var, r.Tuple(tuple([self._version(item, None) for item in held])))
            return
        (lies,) = outputs
        self._moved[var] = _Held(lies, {lies: made})
        if not isinstance(var, r.DataflowVar):
            self._bind(var, self._version(self._moved[var], None, self.builder_.normalize))
            self._moved[var].versions[None] = self._remap.get(var.vid, var)

    def _bind(self, var: r.Var, value: RelaxExpr) -> None:
        """Bind the variable itself, under its name, to a value that is as written."""
        info = r.info_of(value)
        assert info is not None
        kept = self.with_struct_info(var, info)
        if kept is not var:
            self.set_var_remap(var.vid, kept)
        self.builder_.emit_normalized(r.VarBinding(kept, value))

    # ---------------------------------------------------------------------------- arguments

    def _lies(self, arg: RelaxExpr) -> Lies:
        """How an argument lies; None as it was written."""
        if isinstance(arg, r.Var):
            if arg in self._moved:
                return self._moved[arg].first
            if arg in self._parts:
                return tuple([held.first for held in self._parts[arg]])
            arg = self._tuples.get(arg, arg)
        if isinstance(arg, r.Tuple):
            held = [self._moved.get(item) if isinstance(item, r.Var) else None for item in arg.fields]
            return tuple([None if item is None else item.first for item in held])
        return None

    def _argument(self, arg: RelaxExpr, lies: Lies) -> Any:
        """An argument, lying as is asked for."""
        if isinstance(lies, tuple):
            if isinstance(arg, r.Var) and arg in self._parts:
                return r.Tuple(tuple([self._version(held, own) for held, own in zip(self._parts[arg], lies)]))
            whole = self._tuples.get(arg, arg) if isinstance(arg, r.Var) else arg
            if not isinstance(whole, r.Tuple):
                return self.visit_expr(arg)
            return r.Tuple(tuple([self._argument(item, own) for item, own in zip(whole.fields, lies)]))
        if lies is None:
            return self.visit_expr(arg)
        if not isinstance(arg, r.Var):
            return self._version(_Held(None, {None: self.visit_expr(arg)}), lies)
        held = self._moved.get(arg)
        if held is None:
            held = self._others.setdefault(arg, _Held(None, {None: super().visit_var_(arg)}))
        return self._version(held, lies)

    def _version(self, held: _Held, lies: Layout | None, emit: Emit | None = None) -> Any:
        """Return the tensor in the layout `lies`. It is moved there at the first request."""
        key = None if lies is not None and lies.is_identity and _rank(held) == lies.ndim else lies
        if key not in held.versions:
            source = held.first if held.first is not None else Layout.identity(_rank(held))
            target = key if key is not None else Layout.identity(source.ndim)
            held.versions[key] = moved(self, held.versions[held.first], source, target, emit or self.builder_.emit)
        return held.versions[key]


def _rank(held: _Held) -> int:
    """How many dimensions the tensor has as written."""
    if held.first is not None:
        return held.first.ndim
    info = r.info_of(held.versions[None])
    return info.ndim if isinstance(info, r.TensorStructInfo) else -1
