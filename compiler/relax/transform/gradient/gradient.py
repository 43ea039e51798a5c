"""The gradient of a function, as a function of its own."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.op.execution.calls import without_gradient
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.gradient.backward_pass import BackwardPass
from compiler.relax.transform.gradient.checkpoints import Checkpoints
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.to_non_dataflow import plain
from compiler.relax.utils import copy_with_new_vars
from compiler.suggest import closest
from compiler.te.where import at


@relax_pass("Gradient")
def gradient(
    mod: IRModule, context: PassContext, *, func_name: str, require_grads: r.Var | Sequence[r.Var] | None = None,
    target_index: int = 0,
) -> IRModule:  # fmt: skip
    """Add a function "<name>_adjoint", which also returns gradients of the result for the parameters.

        def main(x, w):               def main_adjoint(x, w):
            lv = R.matmul(x, w)           lv = R.matmul(x, w)
            gv = R.sum(lv)        →       gv = R.sum(lv)
            return gv                     lv1 = R.broadcast_to(R.ones((), …), …)
                                          x_adjoint = R.matmul(lv1, R.permute_dims(w))
                                          w_adjoint = R.matmul(R.permute_dims(x), lv1)
                                          return (gv, (x_adjoint, w_adjoint))

    The result, or the field `target_index` of it, is one floating point number. `require_grads` are the parameters
    (tensors or tuples of them) whose gradients are wanted, all by default; one that the result does not depend on
    has gradients of 0. Operators say how their gradients are taken, so this comes before LegalizeOps; kernels that
    `call_tir_with_grad` calls name a registered te function. A value between `grad.start_checkpoint` and
    `grad.end_checkpoint` is computed again for the gradients, so that it need not be kept until then.

    Raises IRError where the result depends on such a parameter by a condition, by the call of a function, or by an
    operator without gradient.
    """
    names = {gvar.name_hint: gvar for gvar, func in mod.items() if isinstance(func, r.Function)}
    if func_name not in names:
        raise ArgumentError(f"the module has no graph function {func_name!r}", hint=closest(func_name, names))
    func = mod[names[func_name]]
    assert isinstance(func, r.Function)
    made = GlobalVar(f"{func_name}_adjoint")
    if made in mod:
        raise IRError(f"the module already has a function {made.name_hint!r}")
    wanted = _required(func, func_name, require_grads)
    builder = BlockBuilder(mod)
    adjoint = _adjoint(func, wanted, target_index, builder).with_attr("global_symbol", made.name_hint)
    own = builder.get()
    return own.with_functions({**own.functions, made: adjoint})


def _required(func: r.Function, name: str, given: r.Var | Sequence[r.Var] | None) -> list[int]:
    """The positions of the parameters whose gradients are wanted."""
    if given is None:
        return [place for place, param in enumerate(func.params) if _holds_only_tensors(param.struct_info)]
    found = []
    for var in [given] if isinstance(given, r.Var) else given:
        place = next((i for i, param in enumerate(func.params) if param is var), None)
        if place is None:
            raise ArgumentError(f"{r.describe(var)} is no parameter of {name}", hint="give variables of func.params")
        if not _holds_only_tensors(var.struct_info, floats=True):
            raise ArgumentError(
                f"the parameter {var.name_hint} has no gradient: it is {var.struct_info}, "
                "no tensor of floating point numbers"
            )
        found.append(place)
    return found


def _holds_only_tensors(info: r.StructInfo, floats: bool = False) -> bool:
    match info:
        case r.TensorStructInfo():
            return not floats or (bool(info.dtype) and parse_dtype(info.dtype).is_float)
        case r.TupleStructInfo():
            return all(_holds_only_tensors(item, floats) for item in info.fields)
    return False


def _adjoint(original: r.Function, wanted: list[int], target_index: int, builder: BlockBuilder) -> r.Function:
    func = copy_with_new_vars(original)
    dataflow = func.is_pure and not any(isinstance(node, r.If | r.Function) for node in walk(func.body))
    if not dataflow:
        func = plain(func)
    checkpoints, body = Checkpoints.of(func)
    params = [func.params[place] for place in wanted]
    builder.begin_scope(func.params)
    (builder._begin_dataflow_block if dataflow else builder._begin_binding_block)()
    for binding in checkpoints.bindings:
        builder.emit_normalized(_without_names(binding, builder))
    backward = BackwardPass(builder, params, checkpoints)
    backward.run(*_target(body, target_index, func))
    emit = builder.emit_output if dataflow else builder.emit
    slopes = [emit(backward.gradient_of(param), f"{param.name_hint}_adjoint") for param in params]
    block = builder._end_block()
    builder.end_scope()
    seq = r.SeqExpr((block,), r.Tuple((body, r.Tuple(tuple(slopes)))), func.body.span)
    return remove_all_unused(make_function(builder.get(), func.params, seq, func.is_pure, func.attrs, func.span))


def _without_names(binding: r.Binding, builder: BlockBuilder) -> r.Binding:
    """Copy a binding into the function with gradients.
    A call that names a te gradient becomes a plain one."""
    value = binding.value
    if not isinstance(value, r.Call) or not isinstance(value.op, Op) or value.op.name != "relax.call_tir_with_grad":
        return binding
    return r.VarBinding(binding.var, builder.normalize(without_gradient(builder, value)), binding.span)


def _target(body: RelaxExpr, index: int, func: r.Function) -> tuple[RelaxExpr, r.TensorStructInfo]:
    """The result that gradients are taken of, and what is known of it."""
    info = r.info_of(body)
    if isinstance(info, r.TupleStructInfo):
        if not 0 <= index < len(info.fields):
            raise ArgumentError(f"target_index is {index}, and the function returns {len(info.fields)} values")
        target = body.fields[index] if isinstance(body, r.Tuple) else r.TupleGetItem(body, index)
        info = info.fields[index]
    elif index:
        raise ArgumentError(f"target_index is {index}, and the function returns one value")
    else:
        target = body
    if not isinstance(info, r.TensorStructInfo) or info.ndim != 0 or not _holds_only_tensors(info, floats=True):
        raise IRError(
            f"gradients are taken of one floating point number, and the function returns {info}{at(func.span)}",
            hint="add its elements up with relax.op.sum, or multiply them with weights first",
        )
    return target, info
