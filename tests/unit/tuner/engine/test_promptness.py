"""A run's settings of the interpreter, and that it restores them."""

from __future__ import annotations

import gc
import sys
from contextlib import ExitStack

import pytest

from tuner.engine.promptness import prompt_threads


def state() -> tuple[float, bool]:
    """How long threads wait for one that computes, and whether collections leave out what is there."""
    return sys.getswitchinterval(), gc.get_freeze_count() > 0


def test_threads_wait_less_and_collections_look_at_less_until_the_last_run_has_ended():
    before = state()
    first, second = ExitStack(), ExitStack()
    first.enter_context(prompt_threads())
    during = state()
    assert during[0] < before[0]
    assert during[1]
    second.enter_context(prompt_threads())
    first.close()
    assert state() == during
    second.close()
    assert state() == (before[0], False)


def test_a_run_that_fails_gives_it_back_too():
    before = state()
    with pytest.raises(KeyboardInterrupt), prompt_threads():
        raise KeyboardInterrupt
    assert state() == (before[0], False)
