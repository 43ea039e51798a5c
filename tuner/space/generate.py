"""From a function to its search space: a few sketches, by the backend of the target's kind."""

from __future__ import annotations

from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.errors import TuningError
from tuner.space.analysis import blocks_of
from tuner.space.backend import tuning_backend_of
from tuner.space.sketch import Sketch, Values


def generate(func: PrimFunc, target: Target) -> tuple[Sketch, ...]:
    """Return the sketches of `func` on `target`.

    Each contraction (a reduction of a product) gets a register tile and cache panels; other blocks are inlined
    or spread over threads and vectors. Raises TuningError when the function has no block to schedule.
    """
    if not blocks_of(func):
        raise TuningError(
            "the function has no block with constant extents to schedule",
            hint="give symbolic dimensions a value before tuning",
        )
    return tuning_backend_of(target).sketches(func, target)


def generate_one(func: PrimFunc, target: Target, name: str, begin: Values) -> Sketch | None:
    """Return the sketch called `name` of those that `generate` gives, without making the others.

    Its trace has decisions near the values `begin`. None if only `generate` can tell, because it knows more sketches
    than those of a product on vectors.
    """
    return tuning_backend_of(target).sketch(func, target, name, begin)
