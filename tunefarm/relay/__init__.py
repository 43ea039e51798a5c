"""Relay, Apache TVM's graphs before relax.

Expressions, operators and builds, translated to `tunefarm.relax`.
"""

from typing import Any, NoReturn

from compiler import hooks
from compiler.faces.relay.building import Executor, GraphExecutorFactoryModule, build, create_executor
from compiler.faces.relay.nodes import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)
from compiler.faces.relay.table import OPERATORS as _OPERATORS
from compiler.faces.relay.translate import to_relax
from compiler.faces.relay.types import Any as Any_
from compiler.faces.relay.types import FuncType, TensorType, TupleType, Type, TypeVar, scalar_type
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.runtime.files.params import load_param_dict, save_param_dict
from tunefarm.relay import (
    analysis,
    backend,
    dataflow_pattern,
    expr,
    frontend,
    function,
    image,
    nn,
    op,
    testing,
    transform,
    ty,
    vision,
)

hooks.name_answer(hooks.SCHEDULES, "tuner.faces.kernel_schedules:KERNEL_SCHEDULES")
hooks.name_answer(hooks.TUNER, "tuner.faces.kernel_tuner:KERNEL_TUNER")

RelayExpr = Expr
_PLAIN = {name: known.make for name, known in _OPERATORS.items() if "." not in name}
globals().update(_PLAIN)
globals()["Any"] = Any_

__all__ = [
    "Any", "Call", "Constant", "Executor", "Expr", "FuncType", "Function", "GlobalVar", "GraphExecutorFactoryModule",
    "IRModule", "If", "Let", "RelayExpr", "TensorType", "Tuple", "TupleGetItem", "TupleType", "TupleWrapper", "Type",
    "TypeVar", "Var", "analysis", "astext", "backend", "build", "const", "create_executor", "dataflow_pattern", "expr",
    "frontend", "function", "image", "load_param_dict", "nn", "op", "save_param_dict", "scalar_type", "testing",
    "to_relax", "transform", "ty", "var", "vision", *sorted(_PLAIN),
]  # fmt: skip

_INSTEAD = {
    "ScopeBuilder": "relax.BlockBuilder", "ExprFunctor": "relax.ExprFunctor", "ExprMutator": "relax.PyExprMutator",
    "ExprVisitor": "relax.PyExprVisitor", "fromtext": "tvm.script.from_source with a relax text",
    "parse": "tvm.script.from_source with a relax text", "quantize": "a quantised ONNX model (relax.frontend.onnx)",
    "qnn": "relax.op.quantize and relax.op.dequantize", "adt": "Python code around relax functions",
    "Match": "relay.If, or Python code around relax functions", "RefCreate": "values that functions return",
    "optimize": "relay.to_relax, then passes of relax.transform", "dyn": "relax, whose shapes may be symbolic",
    "prelude": "Python code around relax functions", "collage": "relax.transform.FuseOpsByPattern",
    "fixed_point_multiply": "relax.op.quantize and relax.op.dequantize", "memory": "relax.op.memory",
    "vm": 'relay.create_executor("vm")', "annotation": "relax.transform.FuseOps, which needs no annotations",
}  # fmt: skip


def astext(value: Expr, show_meta_data: bool = True, annotate: object = None) -> str:
    """An expression as text."""
    return value.astext()


def __getattr__(name: str) -> NoReturn:
    instead = _INSTEAD.get(name, "relax: relay.to_relax translates what there is")
    raise AttributeError(f"relay.{name} is not carried over; use {instead}")


def __dir__() -> list[str]:
    return __all__


del Any_
