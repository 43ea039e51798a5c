"""Weights are asked for when they are needed."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.weights.inputs import inputs_and_weights


@relax_pass("LazyGetInput", over="function")
def lazy_get_input(func: r.Function, mod: IRModule, context: PassContext) -> r.Function:
    """Take a function that returns a weight by number and name; call it before each weight's first use.

    def main(x, w):                    →    def main(x, fget_param):
        R.func_attr({"num_input": 1})           w_untyped = fget_param(0, "w")
        return R.matmul(x, w)                   w = R.match_cast(w_untyped, R.Tensor(…))
                                                return R.matmul(x, w)

    With `KillAfterLastUse`, only the weights in use are in memory. Functions without "num_input" stay.
    """
    parts = inputs_and_weights(func)
    if parts is None or func.body is None or not parts[1]:
        return func
    inputs, weights = parts
    get = r.FuncStructInfo([r.PrimStructInfo("int64"), r.ObjectStructInfo()], r.ObjectStructInfo(), True)
    callback = r.Var("fget_param", get)
    told = {var for param in inputs for var in symbols_set_by(param.struct_info)}
    open_weights = dict(enumerate(weights))
    inner = _inner(func)
    renamed: dict[r.Var, r.Var] = {}

    def loads(block: list[r.Binding], mentioned: set[object], dataflow: bool) -> None:
        """Ask for the weights among the given values, and for those that tell their dimensions."""
        for index, weight in list(open_weights.items()):
            tells = [var for var in symbols_set_by(weight.struct_info) if var not in told]
            if weight not in mentioned and not any(var in mentioned for var in tells):
                continue
            del open_weights[index]
            told.update(tells)
            kind = r.DataflowVar if dataflow else r.Var
            untyped = kind(f"{weight.name_hint}_untyped", r.ObjectStructInfo())
            asked = r.Call(callback, (r.PrimValue(int64(index)), r.StringImm(weight.name_hint)))
            block.append(r.VarBinding(untyped, asked))
            here = r.DataflowVar(weight.vid, weight.struct_info, weight.span) if weight in inner else weight
            renamed[weight] = here
            block.append(r.MatchCast(here, untyped, weight.struct_info))

    blocks: list[r.BindingBlock] = []
    for block in func.body.blocks:
        made: list[r.Binding] = []
        for binding in block.bindings:
            info = binding.var.struct_info_
            mentioned: set[object] = {*walk(binding.value), *(symbols_in(info) if info is not None else ())}
            loads(made, mentioned, isinstance(block, r.DataflowBlock))
            made.append(binding)
        blocks.append(type(block)(tuple(made), block.span))
    last: list[r.Binding] = []
    loads(last, {*walk(func.body.body), *symbols_in(func.ret_struct_info)}, False)
    blocks += [r.BindingBlock(tuple(last))] if last else []
    body = Renewal(variables=renamed).expr(r.SeqExpr(tuple(blocks), func.body.body, func.body.span))
    return make_function(mod, (*inputs, callback), body, func.is_pure, func.attrs, func.span)


def _inner(func: r.Function) -> set[r.Var]:
    """The variables that one dataflow block uses, and nothing else does."""
    uses: dict[r.Var, set[int]] = {}
    for number, block in enumerate(func.body.blocks):
        place = number if isinstance(block, r.DataflowBlock) else -1
        for binding in block.bindings:
            for node in walk(binding.value):
                if isinstance(node, r.Var):
                    uses.setdefault(node, set()).add(place)
    for node in walk(func.body.body):
        if isinstance(node, r.Var):
            uses.setdefault(node, set()).add(-1)
    return {var for var, places in uses.items() if len(places) == 1 and -1 not in places}
