"""The text of functions made from te: of classic schedules, replayed on the engine, and of operators as defined.

The texts are in `te/<case>.txt`. After a wanted change, `UPDATE_GOLDEN=1 pytest tests/golden` writes them anew:
read the difference before committing it.
"""

import os
from pathlib import Path

import pytest

from compiler.te.schedule.replay import schedule_to_func
from tests.kit.compiler.schedules.te_primitives import CASES

_FOLDER = Path(__file__).parent / "te"


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    schedule, args, _ = CASES[name]()
    text = schedule_to_func(schedule, args, name=name).script() + "\n"
    path = _FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_no_text_is_left_over() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == set(CASES)


def test_the_same_schedule_gives_the_same_text() -> None:
    texts = set()
    for _ in range(2):
        schedule, args, _reference = CASES["read_through_caches"]()
        texts.add(schedule_to_func(schedule, args).script())
    assert len(texts) == 1
