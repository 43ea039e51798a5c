"""Weights become one parameter, a tuple."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Function, TupleGetItem, TupleStructInfo, Var, VarBinding
from compiler.relax.transform.functions import with_signature
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.weights.inputs import inputs_and_weights


@relax_pass("BundleModelParams", over="function")
def bundle_model_params(
    func: Function, mod: IRModule, context: PassContext, *, param_tuple_name: str | None = None
) -> Function:
    """Pass all weights as one tuple, called "model_params" unless another name is given.

    def main(x, w, b):              →    def main(x, model_params):
        R.func_attr({"num_input": 1})        w = model_params[0]
        …                                    b = model_params[1]

    Functions without the attribute "num_input" stay.
    """
    parts = inputs_and_weights(func)
    if parts is None or func.body is None:
        return func
    inputs, weights = parts
    whole = Var(param_tuple_name or "model_params", TupleStructInfo(tuple([weight.struct_info for weight in weights])))
    first = [VarBinding(weight, TupleGetItem(whole, index)) for index, weight in enumerate(weights)]
    return with_signature(mod, func, (*inputs, whole), first)
