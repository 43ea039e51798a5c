"""The strategy seam: a search added here alone is known by its name wherever strategies are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.kit.cli.run import run_cli
from tuner.engine.plan import sketch_search
from tuner.engine.queued_runs import queue_run
from tuner.errors import TuningError
from tuner.model.guide import Guide
from tuner.records.store import RecordStore
from tuner.search.base import Candidate
from tuner.search.registry import STRATEGIES, is_guided, make_strategy, register_strategy, strategy_names
from tuner.space.sketch import Sketch
from tuner.task import TuningTask

TASK = "matmul:16,16,16:float32"
TOLD: list[tuple[str, float | None]] = []


class FirstSearch:
    """Asks for the first points of the first sketch that are allowed."""

    def __init__(self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = ()) -> None:
        self._left = self._candidates(sketches[0], set(seen))

    def _candidates(self, sketch: Sketch, seen: set[str]) -> Iterator[Candidate]:
        for at in range(sketch.size):
            point, rest = [], at
            for decision in sketch.decisions:
                rest, index = divmod(rest, len(decision.values))
                point.append(index)
            candidate = Candidate(sketch, tuple(point))
            if sketch.is_allowed(point) and candidate.digest not in seen:
                yield candidate

    def ask(self, count: int) -> list[Candidate]:
        return [candidate for _, candidate in zip(range(count), self._left)]

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        TOLD.append((candidate.digest, cost))


class GuidedSearch(FirstSearch):
    guided = True

    def __init__(self, sketches: Sequence[Sketch], seed: int, seen: Iterable[str], guide: Guide | None) -> None:
        super().__init__(sketches, seed, seen)
        self.guide = guide


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    TOLD.clear()
    register_strategy("first", FirstSearch)
    register_strategy("guided-first", GuidedSearch)
    yield
    del STRATEGIES["first"], STRATEGIES["guided-first"]


def test_a_run_of_the_command_line_uses_it_by_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = f"sqlite:///{tmp_path}/records.db"
    ended = run_cli(capfd, "tune", TASK, "--strategy", "first", "--trials", "2", "--db", db, "--quiet")
    assert ended.code == 0, ended.text
    assert len(TOLD) == 2
    with RecordStore.open(f"{tmp_path}/records.db") as store:
        (run,) = store.runs.newest()
        assert "first" in json.dumps(dict(run.options))
        assert {t.digest for t in store.trials.all(run.id) if t.purpose == "search"} == {digest for digest, _ in TOLD}


def test_it_is_named_among_those_there_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = run_cli(capfd, "tune", TASK, "--strategy", "last")
    assert ended.code == 2
    assert "'first', 'genetic'" in ended.err
    with pytest.raises(TuningError, match=r"no search strategy is called 'last'[\s\S]*evolutionary, first, genetic"):
        make_strategy("last", (), 0, ())
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        assert queue_run(store, [TASK], "llvm", trials=1, strategy="first").options["strategy"] == "first"
        with pytest.raises(TuningError, match="known: evolutionary, first"):
            queue_run(store, [TASK], "llvm", trials=1, strategy="last")
    assert strategy_names() == tuple(sorted(STRATEGIES))


def test_one_that_says_so_is_given_what_is_known_of_the_space() -> None:
    task = TuningTask.from_spec(TASK, "llvm -mcpu=znver3 -mtriple=x86_64-unknown-linux-gnu")
    assert (is_guided("first"), is_guided("guided-first")) == (False, True)
    plain, guided = (sketch_search(task, name) for name in ("first", "guided-first"))
    assert plain.guide == ""
    assert guided.guide
    assert isinstance(guided.strategy, GuidedSearch)
    assert isinstance(guided.strategy.guide, Guide)


def test_a_name_is_not_taken_twice_unasked() -> None:
    with pytest.raises(TuningError, match="there is a search strategy 'first'"):
        register_strategy("first", FirstSearch)
    register_strategy("first", GuidedSearch, override=True)
    assert is_guided("first")
