"""Compute all values that depend on weights alone in a function of its own, before the model runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from compiler.errors import ArgumentError, IRError
from compiler.ir.attrs import Attrs
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.compile_time import computable_at_compile_time
from compiler.relax.analysis.variables import free_symbolic_vars
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_set_by
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.weights.inputs import NUM_INPUT, inputs_and_weights
from compiler.relax.utils import copy_with_new_vars
from compiler.tir import nodes as n

SHARED = "transform_params"


@relax_pass("LiftTransformParams")
def lift_transform_params(
    mod: IRModule, context: PassContext, *, shared_transform: bool | Sequence[str] = False
) -> IRModule:
    """Move what depends on weights only into a separate function, whose results are passed instead.

    def main(x, w):                     →    def main(x, lv):
        R.func_attr({"num_input": 1})            R.func_attr({"num_input": 1})
        lv = R.permute_dims(w)                   return R.matmul(x, lv)
        return R.matmul(x, lv)               def main_transform_params(params):
                                                 return (R.permute_dims(params[0]),)

    The new function takes all weights as a tuple, and gives what is still needed: weights first, then what was
    computed. `shared_transform` (for all functions, or those named) makes one function "transform_params" of what all
    of them compute alike. They must have the same weights. Functions without "num_input" stay.
    """
    if shared_transform is False:
        functions = dict(mod.functions)
        for name, func in mod.items():
            if isinstance(func, r.Function) and inputs_and_weights(func) is not None:
                lifted = _Lifting.of(func)
                outputs = lifted.needed(lifted.early)
                functions[name] = lifted.runtime(mod, outputs)
                transform = f"{name.name_hint}_{SHARED}"
                functions[GlobalVar(transform)] = lifted.transform(mod, outputs, transform)
        return mod.with_functions(functions)
    wanted = None if shared_transform is True or not shared_transform else list(shared_transform)
    return _shared(mod, wanted)


def _shared(mod: IRModule, wanted: Sequence[str] | None) -> IRModule:
    chosen = {
        name: func
        for name, func in mod.items()
        if isinstance(func, r.Function)
        and inputs_and_weights(func) is not None
        and (wanted is None or name.name_hint in wanted)
    }
    for missing in set(wanted or ()) - {name.name_hint for name in chosen}:
        raise ArgumentError(f"LiftTransformParams: {missing!r} is no graph function with the attribute {NUM_INPUT!r}")
    if not chosen:
        return mod
    all_lifted = [_Lifting.of(func) for func in chosen.values()]
    first = all_lifted[0]
    for name, other in zip(chosen, all_lifted):
        if [str(w.struct_info) for w in other.weights] != [str(w.struct_info) for w in first.weights]:
            raise IRError(f"{name.name_hint} has other weights than {next(iter(chosen)).name_hint}; nothing is shared")
    common = set.intersection(*[set(item.by_key) for item in all_lifted])
    keys: dict[Hashable, None] = {}
    for item in all_lifted:
        own = [item.by_key[key] for key in common]
        keys.update(dict.fromkeys(item.keys[var] for var in item.needed(own)))
    order = sorted(keys, key=lambda key: first.position(key))
    functions = dict(mod.functions)
    for name, item in zip(chosen, all_lifted):
        functions[name] = item.runtime(mod, [item.variable(key) for key in order])
    functions[GlobalVar(SHARED)] = first.transform(mod, [first.variable(key) for key in order], SHARED)
    return mod.with_functions(functions)


@dataclass
class _Lifting:
    """A function's weights, and the variables whose values follow from them, in order."""

    func: r.Function
    inputs: tuple[r.Var, ...]
    weights: tuple[r.Var, ...]
    early: list[r.Var]
    values: dict[r.Var, RelaxExpr]
    keys: dict[r.Var, Hashable] = field(default_factory=dict)
    by_key: dict[Hashable, r.Var] = field(default_factory=dict)
    missing: list[n.Var] = field(default_factory=list)

    @staticmethod
    def of(func: r.Function) -> _Lifting:
        parts = inputs_and_weights(func)
        assert parts is not None
        inputs, weights = parts
        values = {binding.var: binding.value for block in func.body.blocks for binding in block.bindings}
        early: list[r.Var] = []
        from_weights: set[object] = set(weights)
        for var in computable_at_compile_time(func):
            if any(node in from_weights for node in walk(values[var])):
                early.append(var)
                from_weights.add(var)
        lifting = _Lifting(func, inputs, weights, early, values)
        for index, weight in enumerate(weights):
            lifting.keys[weight] = "weight", index
        for var in early:
            key = lifting.keys[var] = lifting._key(values[var])
            lifting.by_key.setdefault(key, var)
        return lifting

    def _key(self, expr: RelaxExpr) -> Hashable:
        """Return what is equal for values that are computed alike from the weights."""
        match expr:
            case r.Var():
                return self.keys.get(expr, ("var", expr))
            case r.Constant():
                return "constant", expr.content
            case r.Call():
                return "call", expr.op, tuple(map(self._key, expr.args)), expr.attrs, str(expr.sinfo_args)
            case r.Tuple():
                return "tuple", tuple(map(self._key, expr.fields))
            case r.TupleGetItem():
                return "item", self._key(expr.tuple_value), expr.index
        return type(expr), str(expr)

    def variable(self, key: Hashable) -> r.Var:
        """The weight, or the computed value, of a key."""
        if isinstance(key, tuple) and key[0] == "weight":
            return self.weights[key[1]]
        return self.by_key[key]

    def position(self, key: Hashable) -> tuple[int, int]:
        """Return the position of a result: weights come first, then computed values in order."""
        var = self.variable(key)
        return (0, self.weights.index(var)) if var in self.weights else (1, self.early.index(var))

    def needed(self, lifted: Iterable[r.Var]) -> list[r.Var]:
        """The weights and lifted values that the rest of the function reads."""
        gone = set(lifted)
        read: set[object] = {node for node in walk(self.func.body.body) if isinstance(node, r.Var)}
        for var, value in self.values.items():
            if var not in gone:
                read.update(node for node in walk(value) if isinstance(node, r.Var))
        return [var for var in (*self.weights, *self.early) if var in read and (var in gone or var in self.weights)]

    def runtime(self, mod: IRModule, outputs: Sequence[r.Var]) -> r.Function:
        """The function that takes `outputs` in the place of its weights."""
        func = self.func
        replaced = {var: r.Var(var.name_hint, var.struct_info) for var in outputs if var not in self.weights}
        params = [*self.inputs, *[replaced.get(var, var) for var in outputs]]
        dropped = set(replaced) | {var for var in self.early if not self._is_read(var, replaced)}
        blocks = []
        for block in func.body.blocks:
            kept = tuple([binding for binding in block.bindings if binding.var not in dropped])
            if kept:
                blocks.append(type(block)(kept, block.span))
        body = Renewal(variables=dict(replaced)).expr(r.SeqExpr(tuple(blocks), func.body.body, func.body.span))
        params += self._sizes(params, body)
        return make_function(mod, params, body, func.is_pure, func.attrs, func.span)

    def _is_read(self, var: r.Var, replaced: dict[r.Var, r.Var]) -> bool:
        """Whether the rest of the function still computes a value that was not lifted."""
        if var in replaced:
            return False
        users = [other for other, value in self.values.items() if any(node is var for node in walk(value))]
        early = set(self.early)
        if any(node is var for node in walk(self.func.body.body)):
            return True
        return any(user not in early or self._is_read(user, replaced) for user in users)

    def _sizes(self, params: Sequence[r.Var], body: r.SeqExpr) -> list[r.Var]:
        """A shape as one more parameter, for dimensions that only the weights told."""
        told = {var for param in self.func.params for var in symbols_set_by(param.struct_info)}
        without = r.Function(list(params), body, self.func.ret_struct_info, self.func.is_pure)
        self.missing = [var for var in free_symbolic_vars(without) if var in told]
        return [r.Var("sizes", r.ShapeStructInfo(tuple(self.missing)))] if self.missing else []

    def transform(self, mod: IRModule, outputs: Sequence[r.Var], name: str) -> r.Function:
        """The function of the weights that gives `outputs`."""
        whole = r.Var("params", r.TupleStructInfo(tuple([weight.struct_info for weight in self.weights])))
        wanted: set[object] = set(outputs)
        bindings: list[r.Binding] = []
        for var in reversed(list(self.values)):
            if var in wanted:
                wanted.update(node for node in walk(self.values[var]) if isinstance(node, r.Var))
                bindings.append(r.VarBinding(var, self.values[var]))
        reads = [r.VarBinding(w, r.TupleGetItem(whole, i)) for i, w in enumerate(self.weights) if w in wanted]
        plain = _Inner()
        block = plain.block(r.DataflowBlock((*reads, *reversed(bindings))))
        fields: list[RelaxExpr] = [plain.expr(var) for var in outputs]
        if self.missing:
            fields.append(r.ShapeExpr(tuple(self.missing)))
        result = r.Var("gv", None)
        last = r.VarBinding(result, r.Tuple(tuple(fields)))
        body = r.SeqExpr((type(block)((*block.bindings, last), block.span),), result)
        attrs = Attrs({"global_symbol": name, NUM_INPUT: 0})
        return copy_with_new_vars(make_function(mod, [whole], body, True, attrs))


class _Inner(Renewal):
    """Copies in which every variable belongs to a dataflow block."""

    def define(self, var: r.Var) -> r.Var:
        if isinstance(var, r.DataflowVar):
            return super().define(var)
        made = r.DataflowVar(var.vid, var.struct_info_, var.span)
        self.variables[var] = made
        return made
