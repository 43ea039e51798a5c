"""Which device each value of a function lives on, as far as parameters, copies and hints tell."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.vdevice import VDevice
from compiler.relax import nodes as r

HINT, COPY = "relax.hint_on_device", "relax.to_vdevice"


def transfer(value: RelaxExpr) -> str:
    """Return the device operator (`to_vdevice` or `hint_on_device`) whose call a value is, else ""."""
    name = value.op.name if isinstance(value, r.Call) and isinstance(value.op, Op) else ""
    return name if name in (HINT, COPY) else ""


def device_in(info: r.StructInfo | None) -> VDevice | None:
    """Return the device of a tensor, or of the first field of a tuple that has one."""
    match info:
        case r.TensorStructInfo():
            return info.vdevice
        case r.TupleStructInfo():
            return next((found for item in info.fields if (found := device_in(item)) is not None), None)
    return None


def holds_tensors(info: r.StructInfo | None) -> bool:
    """Whether a value is a tensor, or a tuple that holds one."""
    if isinstance(info, r.TupleStructInfo):
        return any(map(holds_tensors, info.fields))
    return isinstance(info, r.TensorStructInfo)


class KnownDevices:
    """The devices of a function's variables. An operator's arguments and results live on one device."""

    def __init__(self, func: r.Function) -> None:
        self._known: dict[r.Var, VDevice] = {}
        self._tuples: dict[r.Var, r.Tuple] = {}
        self._same: dict[r.Var, RelaxExpr] = {}
        for param in func.params:
            self._take(param, device_in(param.struct_info))
        bindings = list(_bindings(func.body))
        for binding in bindings:
            value = binding.value
            if isinstance(value, r.Tuple):
                self._tuples[binding.var] = value
            elif isinstance(value, r.Var | r.TupleGetItem):
                self._same[binding.var] = value
        count = -1
        while count != len(self._known):  # each round goes as far as the order of bindings lets it
            count = len(self._known)
            for binding in bindings:
                self._forward(binding)
            for binding in reversed(bindings):
                self._backward(binding)

    def of(self, expr: RelaxExpr) -> VDevice | None:
        """Return the device of a value; None if it is not known."""
        found = self._source(expr)
        return None if found is None else self._known.get(found)

    def _source(self, expr: RelaxExpr) -> r.Var | None:
        """The variable whose device is that of `expr`."""
        while True:
            if isinstance(expr, r.TupleGetItem):
                whole = expr.tuple_value
                while isinstance(whole, r.Var) and isinstance(self._same.get(whole), r.Var):
                    whole = self._same[whole]
                known = self._tuples.get(whole) if isinstance(whole, r.Var) else None
                expr = whole if known is None else known.fields[expr.index]
            elif isinstance(expr, r.Var) and expr in self._same:
                expr = self._same[expr]
            else:
                return expr if isinstance(expr, r.Var) and expr not in self._tuples else None

    def _take(self, expr: RelaxExpr, device: VDevice | None) -> None:
        if isinstance(expr, r.Var) and expr in self._tuples:
            return
        if isinstance(expr, r.Tuple):
            for item in expr.fields:
                self._take(item, device)
            return
        source = self._source(expr)
        if device is not None and source is not None and holds_tensors(r.info_of(source)):
            self._known.setdefault(source, device)

    def _forward(self, binding: r.Binding) -> None:
        value = binding.value
        if transfer(value):
            assert isinstance(value, r.Call)
            self._take(binding.var, value.attrs["dst_vdevice"])
        elif isinstance(value, r.Call | r.If) or isinstance(binding, r.MatchCast):
            self._take(binding.var, next((d for x in _parts(value) if (d := self.of(x)) is not None), None))

    def _backward(self, binding: r.Binding) -> None:
        value, name = binding.value, transfer(binding.value)
        if name == HINT:
            assert isinstance(value, r.Call)
            self._take(value.args[0], value.attrs["dst_vdevice"])
        elif not name and (isinstance(value, r.Call | r.If) or isinstance(binding, r.MatchCast)):
            device = self.of(binding.var) or next((d for x in _parts(value) if (d := self.of(x)) is not None), None)
            for part in _parts(value):
                self._take(part, device)


def _bindings(seq: r.SeqExpr) -> Iterator[r.Binding]:
    """The bindings of a sequence, those of branches before the condition."""
    for block in seq.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, r.If):
                yield from _bindings(binding.value.true_branch)
                yield from _bindings(binding.value.false_branch)
            yield binding


def _parts(value: RelaxExpr) -> list[RelaxExpr]:
    """The values that live where a call, a condition or a checked value lives."""
    match value:
        case r.If():
            return [value.true_branch.body, value.false_branch.body]
        case r.Call(op=Op()):
            return [part for arg in value.args for part in _leaves(arg)]
        case r.Var() | r.TupleGetItem():
            return [value]
    return []


def _leaves(arg: RelaxExpr) -> list[RelaxExpr]:
    return [leaf for item in arg.fields for leaf in _leaves(item)] if isinstance(arg, r.Tuple) else [arg]



