"""Which parameters of a function are inputs, and which are weights."""

from __future__ import annotations

from compiler.errors import IRError
from compiler.relax.nodes import Function, Var

NUM_INPUT = "num_input"
"""The attribute of a function that says how many parameters, from the first on, are inputs."""


def inputs_and_weights(func: Function) -> tuple[tuple[Var, ...], tuple[Var, ...]] | None:
    """Separate the parameters into inputs and weights.
    None for a function that does not say how many are inputs."""
    given = func.attrs.get(NUM_INPUT)
    if given is None:
        return None
    count = int(getattr(given, "value", given))
    if not 0 <= count <= len(func.params):
        raise IRError(f"{NUM_INPUT} is {count}, and the function has {len(func.params)} parameters")
    return func.params[:count], func.params[count:]
