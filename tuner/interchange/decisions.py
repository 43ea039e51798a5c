"""A trace's decisions as named parameters: what other tools call a configuration."""

from __future__ import annotations

import json
from collections import Counter

from compiler.schedule.core.rv import RV
from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace

Value = int | float | str | bool | None


def parameters_of(record: str) -> dict[str, Value]:
    """Return the parameters of a recorded candidate: a trace, a kernel's config, or a template's."""
    match json.loads(record):
        case {"format": "tunefarm.config", "config": dict(config)}:
            return config
        case {"autotvm": {"config": {"entity": [*entities]}}}:
            return {str(name): value if isinstance(value, int | str) else str(value) for name, _, value in entities}
    return parameters(Trace.from_json(record))


def parameters(trace: Trace) -> dict[str, Value]:
    """Each decision under a name that says what it decides, in the trace's order.

    A tile of loop 1 of block C in three parts is `C.1.tile0`, `C.1.tile1`, `C.1.tile2`. A choice that becomes the
    second factor of a split of that loop is `C.1.factor1`, another one `choice`; the loop a block is computed at is
    `C.location`. Names that would come twice are numbered. An open decision is None.
    """
    origin = _origins(trace.steps)
    names: Counter[str] = Counter()
    found: dict[str, Value] = {}
    for step, decision in zip(trace.sampling_steps, trace.decisions):
        name = _name(step, trace.steps, origin)
        names[name] += 1
        if names[name] > 1:
            name = f"{name}#{names[name]}"
        if isinstance(decision, tuple):
            found |= {f"{name}{level}": part for level, part in enumerate(decision)}
        else:
            found[name] = _chosen(step, decision)
    return found


def _chosen(step: Step, decision: int | None) -> Value:
    """A categorical decision is an index; its candidate says more."""
    candidates = dict(step.attrs).get("candidates")
    if decision is not None and isinstance(candidates, tuple) and 0 <= decision < len(candidates):
        chosen = candidates[decision]
        return chosen if isinstance(chosen, int) else str(chosen)
    return decision


def _name(step: Step, steps: tuple[Step, ...], origin: dict[RV, str]) -> str:
    over = next((origin[i] for i in step.inputs if isinstance(i, RV) and i in origin), "")
    match step.prim:
        case "sample_perfect_tile" | "sample_tile":
            return f"{over}.tile"
        case "sample_compute_location":
            return f"{over}.location"
        case _:
            return _factor(step, steps, origin) or "choice"


def _factor(step: Step, steps: tuple[Step, ...], origin: dict[RV, str]) -> str:
    """The factor of a split that the step's outcome becomes, if it becomes one."""
    for user in steps:
        if user.prim == "split" and any(given in step.outputs for given in user.inputs if isinstance(given, RV)):
            loop, *factors = user.inputs
            at = next(at for at, given in enumerate(factors) if isinstance(given, RV) and given in step.outputs)
            return f"{origin.get(loop, 'loop') if isinstance(loop, RV) else 'loop'}.factor{at}"
    return ""


def _origins(steps: tuple[Step, ...]) -> dict[RV, str]:
    """Names of what steps give: a block's own, and its loops by their place."""
    named: dict[RV, str] = {}
    for step in steps:
        if step.prim == "get_block":
            named.update({out: str(dict(step.attrs).get("name", "block")) for out in step.outputs})
        elif step.prim == "get_loops":
            block = next((named[i] for i in step.inputs if isinstance(i, RV) and i in named), "block")
            named.update({out: f"{block}.{at}" for at, out in enumerate(step.outputs)})
    return named
