"""A store survives the death of whoever writes to it. `python tests/e2e/kill_writers.py` does so a hundred times."""

from __future__ import annotations

from pathlib import Path

from kill_writers import kill_all


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    kill_all(str(tmp_path / "records.db"), times=4, seed=7)
