"""How much memory a function needs at least, found by a liveness analysis that knows nothing of the planner.

It goes backwards over a module whose arrays are explicit, before they are planned.
"""

from __future__ import annotations

from typing import Any

from compiler.ir.base import Op
from compiler.ir.module import IRModule
from compiler.ir.transform.passes import Sequential
from compiler.relax.nodes import Call, If, SeqExpr, Tuple, TupleGetItem, info_of
from compiler.relax.transform.memory.static_plan_block_memory import static_plan_block_memory
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import FUSION, KERNELS, LOWERING, PREPARATION
from tunefarm.relax import transform

PLAN = transform.StaticPlanBlockMemory()
EXPLICIT = Sequential(
    [
        transform.Normalize(),
        transform.LegalizeOps(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
    ]
)
"""Arrays of a graph as it is written."""
_BUILD = (*PREPARATION, *KERNELS, *FUSION, *LOWERING[: LOWERING.index(static_plan_block_memory)])
FUSED = Sequential([transform.ConvertToDataflow(min_size=1), *[pass_of(function).make() for function in _BUILD]])
"""Arrays of a graph as a build makes them: kernels fused, results in the place of arguments."""


def in_order(seq: SeqExpr) -> list[tuple[Any, Any]]:
    """The bindings of a function, those of branches where the condition stands; a condition gives what both do."""
    found: list[tuple[Any, Any]] = []
    for block in seq.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, If):
                yes, no = binding.value.true_branch, binding.value.false_branch
                found += [*in_order(yes), *in_order(no), (binding.var, (yes.body, no.body))]
            else:
                found.append((binding.var, binding.value))
    return found


def largest_sum(mod: IRModule) -> int:
    """The largest sum of bytes of arrays, each in steps of 64, that are written or will be read; results left out."""
    body: Any = mod["main"].body  # type: ignore[attr-defined]
    bindings = in_order(body)
    arrays: dict[Any, int] = {}
    fields: dict[Any, list[set[Any]]] = {}
    behind: dict[Any, set[Any]] = {}

    def origins(expr: Any) -> set[Any]:
        if isinstance(expr, Tuple | tuple):
            return set().union(*map(origins, getattr(expr, "fields", expr)))
        if isinstance(expr, TupleGetItem) and expr.tuple_value in fields:
            return fields[expr.tuple_value][expr.index]
        if isinstance(expr, TupleGetItem):
            return origins(expr.tuple_value)
        return behind.get(expr, set())

    for var, value in bindings:
        name = value.op.name if isinstance(value, Call) and isinstance(value.op, Op) else ""
        if name == "relax.builtin.alloc_tensor":
            info: Any = info_of(value)
            size = 4
            for extent in info.dims:
                size *= extent.value
            arrays[var], behind[var] = -(-size // 64) * 64, {var}
        elif isinstance(value, Call):
            behind[var] = origins(value.args[0]) if name == "relax.reshape" else set()
        else:
            behind[var] = origins(value)
            if isinstance(value, Tuple):
                fields[var] = [origins(item) for item in value.fields]
    kept = origins(body.body)
    live: set[Any] = set()
    most = 0
    for var, value in reversed(bindings):
        if var in arrays:
            live.discard(var)
        elif isinstance(value, Call) and not isinstance(value.op, Op):
            live |= set().union(*map(origins, value.args))
            most = max(most, sum(arrays[array] for array in live - kept))
    return most


def arena_size(mod: IRModule) -> int:
    body: Any = mod["main"].body  # type: ignore[attr-defined]
    total = 0
    for _, value in in_order(body):
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "relax.memory.alloc_storage":
            total += value.args[0].values[0].value  # type: ignore[attr-defined]
    return total
