"""A search of a model's kernel begins with what an untuned build of the model uses."""

from __future__ import annotations

from compiler.target.target import Target
from tests.kit.tuner.engine import Point
from tuner.engine.plan import Beginning, sketch_search
from tuner.search.drafted import drafted
from tuner.task import TuningTask

TARGET = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=1")


class Counting:
    """Offers a, b, c and keeps what it is told."""

    def __init__(self) -> None:
        self.left = ["a", "b", "c"]
        self.told: list[str] = []

    def ask(self, count: int) -> list[Point]:
        taken, self.left = self.left[:count], self.left[count:]
        return [Point(name) for name in taken]

    def tell(self, candidate: Point, cost: float | None) -> None:
        self.told.append(candidate.digest)


def test_the_draft_is_the_first_candidate_and_is_not_offered_twice():
    inner = Counting()
    search = Beginning(inner, Point("b"))
    assert [c.digest for c in search.ask(2)] == ["b", "a"]
    assert [c.digest for c in search.ask(5)] == ["c"]
    search.tell(Point("b"), 1.0)
    assert inner.told == ["b"]


def test_what_was_measured_before_is_not_offered_again():
    search = Beginning(Counting(), Point("b"))
    search.tell(Point("b"), 1.0)
    assert [c.digest for c in search.ask(5)] == ["a", "c"]


def test_a_models_kernel_begins_as_its_untuned_build_has_it():
    task = TuningTask.from_spec("matmul:64,96,32", TARGET)
    search = sketch_search(task, "random", model="net")
    wanted = drafted(task.func, TARGET)
    assert wanted is not None
    [first] = search.strategy.ask(1)
    assert first.trace_json == wanted.trace.to_json()
    assert search.draft is first
    assert sketch_search(task, "random").draft is None
