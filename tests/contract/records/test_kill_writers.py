"""A store survives the death of whoever writes to it. `python -m tests.e2e.kill_writers` does so a hundred times."""

from __future__ import annotations

from tests.e2e.kill_writers import kill_all


def test_nothing_acknowledged_is_lost(current_address: str) -> None:
    kill_all(current_address, times=2, seed=7, web_every=2)
