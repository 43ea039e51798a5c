"""Calls of kernels, of functions of the runtime, and what only the host does."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar, Op
from compiler.relax import nodes as r
from compiler.relax.nodes.symbols import signature_symbols
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.op.core.params import (
    ExprArg,
    FuncArg,
    Ints,
    OptionalResults,
    OptionalShape,
    ResultInfo,
    ResultInfos,
    TensorArg,
    TupleArg,
)
from compiler.relax.op.core.registry import OpPatternKind, built_in, operator, refused
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing
from compiler.relax.op.execution.te_gradients import gradient_by_te
from compiler.tir.nodes import IntImm

_A_CALL = refused("it calls what is already a kernel")
_ON_HOST = refused("the host does it")
_LEFT_ALONE = refused("tensors pass through as they were written")
_NO_GRADIENT = refused("the gradient of a function that is not known")
_UNKNOWN_WORK = refused("what a called function does is not known")
_CALL: dict[str, Any] = {
    "te": _A_CALL, "host": built_in, "pattern": OpPatternKind.OPAQUE, "flops": _UNKNOWN_WORK, "layout": _LEFT_ALONE,
    "gradient": _NO_GRADIENT,
}  # fmt: skip
"""The parts that all calls of unknown functions share."""


# ---------------------------------------------------------------------------------- call_tir


def _result(use: Use) -> r.StructInfo:
    if len(use.call.sinfo_args) != 1:
        use.fail(f"one out_sinfo is wanted, got {len(use.call.sinfo_args)}")
    return use.call.sinfo_args[0]


def _outputs(use: Use, result: r.StructInfo) -> tuple[r.TensorStructInfo, ...]:
    found = result.fields if isinstance(result, r.TupleStructInfo) else (result,)
    for item in found:
        if not isinstance(item, r.TensorStructInfo) or item.shape is None:
            use.fail(f"out_sinfo must be tensors of known shape, got {item}")
    return found  # type: ignore[return-value]


def _call_tir_info(use: Use) -> r.StructInfo:
    gvar, result = use.arg("gvar"), _result(use)
    if not isinstance(gvar, GlobalVar):
        use.fail(f"gvar must be the name of a function in the module, got {r.describe(gvar)}")
    outputs = _outputs(use, result)
    inputs = _inputs(use)
    if "inplace_indices" in use.call.attrs:
        outputs = _new_outputs(use, inputs, outputs)
    callee = _callee(use, gvar)
    if callee is not None and callee.params is not None:
        _check_kernel(use, gvar, callee, inputs, outputs)
    return result


def _inputs(use: Use) -> tuple[r.StructInfo, ...]:
    found = use.info("args")
    assert isinstance(found, r.TupleStructInfo)
    return found.fields


def _new_outputs(
    use: Use, inputs: tuple[r.StructInfo, ...], outputs: tuple[r.TensorStructInfo, ...]
) -> tuple[r.TensorStructInfo, ...]:
    """The outputs that are no inputs, of a call that computes in place."""
    indices = use.call.attrs["inplace_indices"]
    if len(indices) != len(outputs):
        use.fail(f"inplace_indices has {len(indices)} entries for {len(outputs)} outputs")
    if all(index == -1 for index in indices):
        use.fail("inplace_indices is -1 throughout", hint="use call_tir where no output is an argument")
    if len({index for index in indices if index >= 0}) != sum(index >= 0 for index in indices):
        use.fail(f"inplace_indices is {tuple(indices)}, which names an argument twice")
    for position, (index, output) in enumerate(zip(indices, outputs)):
        if not -1 <= index < len(inputs):
            use.fail(f"inplace_indices has {index}, but there are {len(inputs)} arguments")
        if index >= 0 and not output.is_base_of(inputs[index]):
            use.fail(f"output {position} is {shown(output)}, but argument {index} is {shown(inputs[index])}")
    return tuple(output for index, output in zip(indices, outputs) if index == -1)


def _callee(use: Use, gvar: GlobalVar) -> r.FuncStructInfo | None:
    known = r.info_of(gvar) if use.context is None else use.context.info_of_function(gvar)
    return known if isinstance(known, r.FuncStructInfo) else None


def _check_kernel(
    use: Use,
    gvar: GlobalVar,
    callee: r.FuncStructInfo,
    inputs: tuple[r.StructInfo, ...],
    outputs: tuple[r.TensorStructInfo, ...],
) -> None:
    """Fail where arguments and outputs are certain not to fit the kernel."""
    params = callee.params or ()
    scalars = use.shape("tir_vars").values or () if use.has("tir_vars") else ()
    given = [*inputs, *outputs, *(r.PrimStructInfo("int64", value) for value in scalars)]
    if len(given) != len(params):
        use.fail(
            f"the function {gvar.name_hint} takes {len(params)} arguments, got {len(inputs)} inputs, "
            f"{len(outputs)} outputs and {len(scalars)} scalars"
        )
    values = Values(signature_symbols(callee))
    for position, (param, info) in enumerate(zip(params, given)):
        reason = unify(param, info, values)
        if reason is not None:
            kind = "argument" if position < len(inputs) else "output"
            number = position if position < len(inputs) else position - len(inputs)
            use.fail(f"{kind} {number} does not fit the function {gvar.name_hint}: {reason}")


def _inplace_list(attrs: dict[str, Any]) -> dict[str, Any]:
    indices = attrs["inplace_indices"]
    return {"inplace_indices": (indices,) if isinstance(indices, int) else tuple(indices)}


@operator("relax.call_tir", infer=_call_tir_info, **_CALL)
def call_tir(
    gvar: FuncArg, args: TupleArg, out_sinfo: ResultInfo, tir_vars: OptionalShape = None
) -> r.Expr:
    """Call a TensorIR function of the module, which writes its results into arrays that the call makes.

    `args` come first, then the results (`out_sinfo`), then `tir_vars`, the scalars it takes.
    """


@operator("relax.call_tir_inplace", infer=_call_tir_info, canonical=_inplace_list, **_CALL)
def call_tir_inplace(
    gvar: FuncArg, args: TupleArg, inplace_indices: Ints, out_sinfo: ResultInfo, tir_vars: OptionalShape = None
) -> r.Expr:
    """Call a TensorIR function that writes results into its arguments.

    Result i lies in argument inplace_indices[i], or is new where that is -1. The call counts as pure, so nothing else
    may read such an argument.
    """


def without_gradient(builder: Any, call: r.Call) -> r.Call:
    """The `call_tir` that a `call_tir_with_grad` is."""
    return r.Call(Op.get("relax.call_tir"), call.args, None, call.sinfo_args, call.span)


@operator(
    "relax.call_tir_with_grad", infer=_call_tir_info, te=_A_CALL, host=built_in, pattern=OpPatternKind.OPAQUE,
    flops=_UNKNOWN_WORK, layout=_LEFT_ALONE, gradient=gradient_by_te, legalize=without_gradient,
    canonical=lambda attrs: {**attrs, "te_grad_kwargs": dict(attrs["te_grad_kwargs"] or {})},
)  # fmt: skip
def call_tir_with_grad(
    gvar: FuncArg, args: TupleArg, out_sinfo: ResultInfo, te_grad_name: str, te_grad_kwargs: Any = None,
    tir_vars: OptionalShape = None,
) -> r.Expr:  # fmt: skip
    """Call a TensorIR function whose gradient is the registered te function `te_grad_name`."""


# --------------------------------------------------------------------- functions of the runtime


def _packed_info(use: Use) -> r.StructInfo:
    """Return what the call says, else what the function says it returns."""
    infos = use.call.sinfo_args
    if infos:
        return infos[0] if len(infos) == 1 else r.TupleStructInfo(infos)
    callee = r.info_of(use.arg("func"))
    return callee.ret if isinstance(callee, r.FuncStructInfo) else r.ObjectStructInfo()


def _dps_info(use: Use) -> r.StructInfo:
    result = _result(use)
    _outputs(use, result)
    if not isinstance(use.arg("func"), r.ExternFunc | GlobalVar):
        use.fail(f"func must be a function of the runtime, got {r.describe(use.arg('func'))}")
    return result


@operator("relax.call_pure_packed", infer=_packed_info, **_CALL)
def call_pure_packed(func: FuncArg, *args: ExprArg, sinfo_args: ResultInfos) -> r.Expr:
    """Call a function of the runtime that is known to have no side effect."""


@operator("relax.call_inplace_packed", infer=_packed_info, canonical=_inplace_list, **_CALL)
def call_inplace_packed(
    func: FuncArg, *args: ExprArg, inplace_indices: Ints, sinfo_args: ResultInfos
) -> r.Expr:
    """Call a function of the runtime that changes its arguments `inplace_indices` and returns them.

    The call counts as pure, so nothing else may read the changed arguments.
    """


@operator("relax.call_dps_packed", infer=_dps_info, **_CALL)
def call_dps_packed(func: FuncArg, args: TupleArg, out_sinfo: ResultInfo) -> r.Expr:
    """Call a function of the runtime that writes its results into arrays that the call makes."""


@operator("relax.call_builtin_with_ctx", infer=_packed_info, pure=False, **_CALL)
def call_builtin_with_ctx(
    func: FuncArg, args: TupleArg, *, sinfo_args: OptionalResults = None
) -> r.Expr:
    """Call a function of the runtime that also takes the machine it runs in."""


# ------------------------------------------------------------------------------------- host


@operator(
    "relax.print", infer=lambda use: r.TupleStructInfo(()), te=_ON_HOST, host=built_in, pattern=OpPatternKind.OPAQUE,
    flops=nothing, layout=_LEFT_ALONE, gradient=refused("it gives no value"), pure=False,
)  # fmt: skip
def print(*values: ExprArg, format: str = "") -> r.Expr:
    """Print values when the program runs, as `format` (with {} for each) says."""


def _assert_info(use: Use) -> r.StructInfo:
    condition = use.info("condition")
    is_scalar_tensor = isinstance(condition, r.TensorStructInfo) and condition.ndim <= 0
    fits = is_scalar_tensor or isinstance(condition, r.PrimStructInfo)
    if not fits or condition.dtype not in ("bool", ""):  # type: ignore[attr-defined]
        use.fail(f"condition must be a bool without dimensions, got {condition}")
    return r.TupleStructInfo(())


@operator(
    "relax.assert_op", infer=_assert_info, te=_ON_HOST, host=built_in, pattern=OpPatternKind.OPAQUE, flops=nothing,
    layout=_LEFT_ALONE, gradient=refused("it gives no value"), pure=False,
)  # fmt: skip
def _assert_call(condition: TensorArg, *format_args: ExprArg, format: str = "") -> r.Expr:
    """Stop the program, with `format` as the message, unless `condition` holds when it runs."""


def assert_op(condition: Any, format_args: Any = None, format: str = "") -> r.Call:
    """Stop the program unless `condition` holds when it runs.

    The message is `format` (with {} for each), which shows `format_args`: an expression or a list of them.
    """
    given = [] if format_args is None else list(format_args) if isinstance(format_args, list | tuple) else [format_args]
    checked = r.PrimValue(IntImm("bool", int(condition))) if isinstance(condition, bool) else condition
    return _assert_call(checked, *given, format=format)
