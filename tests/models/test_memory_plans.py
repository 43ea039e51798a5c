"""Arenas of whole models: hardly more than what lives at one time, as the tests' own liveness analysis says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.ir.module import IRModule
from compiler.relax.analysis import problems
from tests.kit.compiler.memory_bounds import FUSED, PLAN, arena_size, largest_sum
from tests.kit.compiler.model_graphs import decoder, mobilenet_v2, resnet50, transformer


@pytest.mark.parametrize("model", [resnet50, mobilenet_v2, transformer, decoder])
def test_an_arena_is_hardly_larger_than_what_lives_at_one_time(model: Callable[[], IRModule]) -> None:
    explicit = FUSED(model())
    planned = PLAN(explicit)
    assert problems(planned) == []
    assert 0 < arena_size(planned) <= 1.1 * largest_sum(explicit)
