"""Results are given away when they are there."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64
from compiler.relax.normalize import merged
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.weights.inputs import inputs_and_weights


@relax_pass("LazySetOutput", over="function")
def lazy_set_output(func: r.Function, mod: IRModule, context: PassContext) -> r.Function:
    """Take a function and call it with each result and its number once it is computed.

    The function itself returns nothing.

    def main(x):                    →    def main(x, fset_output):
        a = R.exp(x)                         a = R.exp(x)
        b = R.tanh(a)                        fset_output(0, a)
        return (a, b)                        b = R.tanh(a)
                                             fset_output(1, b)
                                             return ()

    A result that a dataflow block computes is passed on after the block. Private functions stay.
    """
    if func.body is None or "global_symbol" not in func.attrs:
        return func
    set_info = r.FuncStructInfo([r.PrimStructInfo("int64"), r.ObjectStructInfo()], r.TupleStructInfo(()), False)
    callback = r.Var("fset_output", set_info)
    result = func.body.body
    bound = {binding.var: binding.value for block in func.body.blocks for binding in block.bindings}
    value = bound.get(result, result) if isinstance(result, r.Var) else result
    outputs = value.fields if isinstance(value, r.Tuple) else (result,)
    open_outputs = dict(enumerate(outputs))
    counted = inputs_and_weights(func)
    count = len(func.params) if counted is None else len(counted[0])
    params = (*func.params[:count], callback, *func.params[count:])

    def given(known: set[object]) -> list[r.Binding]:
        """Give away what is known."""
        made: list[r.Binding] = []
        for index, output in list(open_outputs.items()):
            if not isinstance(output, r.Var) or output in known:
                del open_outputs[index]
                call = r.Call(callback, (r.PrimValue(int64(index)), output))
                made.append(r.VarBinding(r.Var("_", r.TupleStructInfo(())), call))
        return made

    known: set[object] = set(func.params)
    blocks: list[r.BindingBlock] = [r.BindingBlock(tuple(given(known)))]
    for block in func.body.blocks:
        if type(block) is not r.BindingBlock:
            known.update(binding.var for binding in block.bindings)
            blocks += [block, r.BindingBlock(tuple(given(known)))]
            continue
        plain: list[r.Binding] = []
        for binding in block.bindings:
            plain.append(binding)
            known.add(binding.var)
            plain += given(known)
        blocks.append(r.BindingBlock(tuple(plain), block.span))
    body = r.SeqExpr(merged([block for block in blocks if block.bindings]), r.Tuple(()), func.body.span)
    return make_function(mod, params, body, False, func.attrs, func.span)
