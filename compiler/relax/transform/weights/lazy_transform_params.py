"""Weights are loaded, transformed and given away one by one."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import ArgumentError
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64
from compiler.relax.nodes.renew import Renewal
from compiler.relax.op.execution.memory import vm_kill_object
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.to_non_dataflow import plain
from compiler.relax.transform.weights.inputs import NUM_INPUT
from compiler.relax.transform.weights.lift_transform_params import SHARED

_NOTHING = r.TupleStructInfo(())


@relax_pass("LazyTransformParams")
def lazy_transform_params(
    mod: IRModule, context: PassContext, *, fget_item: str = "get_item", fset_item: str | None = "set_item",
    extra_get_item_params: Sequence[r.Var] | None = None, extra_set_item_params: Sequence[r.Var] | None = None,
) -> IRModule:  # fmt: skip
    """Make functions that transform weights load each when it is needed, and pass on each result at once.

        def main_transform_params(params):        def main_transform_params():
            w = params[1]                             w = R.call_packed("get_item", 1)
            lv = R.permute_dims(w)           →        lv = R.permute_dims(w)
            return (lv,)                              R.vm.kill_object(w)
                                                      R.call_packed("set_item", 0, lv)
                                                      R.vm.kill_object(lv)
                                                      return ()

    Only the weights in use are then in memory. `fget_item` and `fset_item` are functions of the runtime; without
    `fset_item` results are returned. Extra parameters come first in their calls, and become parameters of the function.
    The pass changes functions whose name ends in "transform_params", as `LiftTransformParams` makes them.
    """
    before, after = list(extra_get_item_params or ()), list(extra_set_item_params or ())
    for var in (*before, *after):
        if not isinstance(var, r.Var) or var.struct_info_ is None:
            raise ArgumentError(f"an extra parameter is {var!r}: a variable whose StructInfo is known is needed")
    functions = dict(mod.functions)
    for name, func in mod.items():
        if isinstance(func, r.Function) and func.body is not None and name.name_hint.endswith(SHARED):
            functions[name] = _Lazy(func, fget_item, fset_item, before, after).made(mod)
    return mod.with_functions(functions)


class _Lazy:
    """One function, in plain blocks."""

    def __init__(
        self, func: r.Function, get: str, give: str | None, before: Sequence[r.Var], after: Sequence[r.Var]
    ) -> None:
        self._func = plain(func)
        self._get = get
        self._give = give
        self._before = before
        self._after = after
        count = int(func.attrs.get(NUM_INPUT, 0))
        self._inputs, rest = self._func.params[:count], self._func.params[count:]
        if len(rest) != 1 or not isinstance(rest[0].struct_info, r.TupleStructInfo):
            raise ArgumentError(f"LazyTransformParams: a function takes {len(rest)} weights, and not one tuple of them")
        self._weights = rest[0]

    def made(self, mod: IRModule) -> r.Function:
        func = self._func
        bindings = [binding for block in func.body.blocks for binding in block.bindings]
        whole = {binding.var: binding.value for binding in bindings}
        result = func.body.body
        value = whole.get(result, result) if isinstance(result, r.Var) else result
        gives: dict[r.Var, list[int]] = {}
        if self._give is not None and isinstance(value, r.Tuple):
            bindings = [binding for binding in bindings if binding.var is not result]
            result = r.Tuple(())
            for place, item in enumerate(value.fields):
                if not isinstance(item, r.Var):
                    item = r.Var("output", item.struct_info)  # type: ignore[attr-defined]
                    bindings.append(r.VarBinding(item, value.fields[place]))
                gives.setdefault(item, []).append(place)
        made = self._written(self._with_loads(bindings), gives, result)
        params = [*dict.fromkeys([*self._before, *self._after]), *self._inputs]
        seq = r.SeqExpr((r.BindingBlock(tuple(made)),), result, func.body.span)
        return make_function(mod, params, seq, False, func.attrs, func.span)

    def _with_loads(self, bindings: Sequence[r.Binding]) -> list[r.Binding]:
        """The bindings with a load before the first use of each weight."""
        made: list[r.Binding] = []
        loaded: dict[int, r.Var] = {}
        renewal = Renewal()
        for binding in bindings:
            value = binding.value
            if isinstance(value, r.TupleGetItem) and value.tuple_value is self._weights:
                if value.index not in loaded:
                    made += self._load(value.index, binding.var.name_hint, loaded)
                renewal.variables[binding.var] = loaded[value.index]
                continue
            if any(node is self._weights for node in walk(value)):
                raise ArgumentError("LazyTransformParams: the tuple of weights is used other than by its fields")
            made.append(renewal.binding(binding))
        self._renewal = renewal
        return made

    def _load(self, place: int, name: str, loaded: dict[int, r.Var]) -> list[r.Binding]:
        assert isinstance(self._weights.struct_info, r.TupleStructInfo)
        info = self._weights.struct_info.fields[place]
        untyped = r.Var(f"{name}_untyped", r.ObjectStructInfo())
        loaded[place] = r.Var(name, info)
        return [
            r.VarBinding(untyped, _packed(self._get, [*self._before, _number(place)], r.ObjectStructInfo())),
            r.MatchCast(loaded[place], untyped, info),
        ]

    def _written(
        self, bindings: Sequence[r.Binding], gives: dict[r.Var, list[int]], result: RelaxExpr
    ) -> list[r.Binding]:
        """The bindings with results given away, and tensors forgotten after their last use."""
        wanted = {self._renewal.variables.get(var, var): places for var, places in gives.items()}
        last: dict[r.Var, int] = {}
        for number, binding in enumerate(bindings):
            last[binding.var] = number
            for node in walk(binding.value):
                if isinstance(node, r.Var):
                    last[node] = number
        kept = {node for node in walk(result) if isinstance(node, r.Var)}
        made: list[r.Binding] = []
        for number, binding in enumerate(bindings):
            made.append(binding)
            for place in wanted.get(binding.var, ()):
                assert self._give is not None
                call = _packed(self._give, [*self._after, _number(place), binding.var], r.ObjectStructInfo())
                made.append(r.VarBinding(r.Var("_", r.ObjectStructInfo()), call))
            if self._give is None:
                continue
            for var, end in last.items():
                tensor = isinstance(var.struct_info_, r.TensorStructInfo) and var not in self._inputs
                if end == number and tensor and var not in kept:
                    made.append(r.VarBinding(r.Var("_", _NOTHING), vm_kill_object(var)))
        return made


def _packed(name: str, args: Sequence[RelaxExpr], info: r.StructInfo) -> r.Call:
    return r.Call(r.ExternFunc(name), tuple(args), None, (info,))


def _number(value: int) -> r.PrimValue:
    return r.PrimValue(int64(value))
