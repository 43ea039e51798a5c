"""Search strategies on a space whose costs are known, with no build and no device."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tuner.errors import TuningError
from tuner.search.base import Candidate
from tuner.search.registry import STRATEGIES, find_strategy, make_strategy, strategy_names
from tuner.space.sketch import Decision, Sketch


@dataclass(frozen=True)
class Text:
    """Stands where a Trace stands: a sketch only fills its decisions in and prints it."""

    decisions: tuple[int, ...] = ()

    def with_decisions(self, decisions):
        return Text(tuple(decisions))

    def to_json(self):
        return json.dumps(self.decisions)


def space(sizes=(8, 8, 8), allowed=lambda v: True, draft=lambda v: 0.0, name="s") -> Sketch:
    decisions = tuple(Decision(f"d{i}", tuple(range(size))) for i, size in enumerate(sizes))
    return Sketch(name, Text(), decisions, allowed, draft)  # type: ignore[arg-type]


def cost(candidate: Candidate) -> float:
    """A bowl with its least value at (5, 5, ...)."""
    return 1.0 + sum((d - 5) ** 2 for d in candidate.decisions)


def play(strategy, trials: int, outstanding: int = 4) -> list[Candidate]:
    """Ask and tell with several candidates in flight, as the engine does."""
    asked: list[Candidate] = []
    waiting: list[Candidate] = []
    while len(asked) < trials:
        new = strategy.ask(1)
        asked += new
        waiting += new
        if len(waiting) >= outstanding or not new:
            if not waiting:
                break
            first = waiting.pop(0)
            strategy.tell(first, cost(first))
    return asked


def test_every_strategy_is_there_under_its_name():
    assert list(STRATEGIES) == list(strategy_names())
    assert all(callable(find_strategy(name)) for name in STRATEGIES)
    with pytest.raises(TuningError, match="known: evolutionary, genetic"):
        find_strategy("guess")


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_candidate_is_asked_twice(name):
    asked = play(make_strategy(name, [space()], 0, ()), 100)
    assert len({c.digest for c in asked}) == len(asked) == 100


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_small_space_is_used_up_and_then_nothing_comes(name):
    strategy = make_strategy(name, [space((2, 2))], 0, ())
    asked = play(strategy, 50)
    assert len(asked) == 4
    assert list(strategy.ask(3)) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_forbidden_points_are_never_asked(name):
    strategy = make_strategy(name, [space(allowed=lambda v: v["d0"] % 2 == 0)], 0, ())
    assert all(c.decisions[0] % 2 == 0 for c in play(strategy, 80))


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_was_measured_before_is_not_asked_again(name):
    sketch = space((3, 3))
    seen = {Candidate(sketch, (i, j)).digest for i in range(3) for j in range(3) if (i, j) != (1, 2)}
    asked = play(make_strategy(name, [sketch], 0, seen), 10)
    assert [c.decisions for c in asked] == [(1, 2)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_asks_the_same(name):
    def first(seed):
        return [c.decisions for c in play(make_strategy(name, [space()], seed, ()), 40)]

    assert first(3) == first(3)
    assert (first(3) != first(4)) is (name != "grid")


def test_the_first_choice_is_among_the_best_the_draft_knows():
    """Before anything is measured much of the space is looked at."""
    size = 16

    def rank(seed: int) -> int:
        drafted = space((size, size, size), draft=lambda v: size * (size * v["d0"] + v["d1"]) + v["d2"])
        asked = make_strategy("evolutionary", [drafted], seed, ()).ask(8)
        values = (size * (size * a + b) + c for a, b, c in (candidate.decisions for candidate in asked))
        return size**3 - max(values)

    assert max(map(rank, range(9))) < 10


def test_evolution_beats_random_on_a_bowl():
    def best(name, seed):
        return min(cost(c) for c in play(make_strategy(name, [space((16, 16, 16, 16))], seed, ()), 100))

    evolution = sorted(best("evolutionary", s) for s in range(5))[2]
    chance = sorted(best("random", s) for s in range(5))[2]
    assert evolution < chance


def test_the_draft_score_chooses_the_first_candidates():
    drafted = play(make_strategy("evolutionary", [space(draft=lambda v: v["d0"])], 0, ()), 8)
    chance = play(make_strategy("random", [space()], 0, ()), 8)
    assert sum(c.decisions[0] for c in drafted) > sum(c.decisions[0] for c in chance)


def test_failures_do_not_become_parents():
    strategy = make_strategy("evolutionary", [space()], 0, ())
    for candidate in strategy.ask(30):
        strategy.tell(candidate, None)
    assert len(strategy.ask(10)) == 10


def test_an_unknown_strategy_names_the_known_ones():
    with pytest.raises(TuningError) as caught:
        make_strategy("annealing", [space()], 0, ())
    assert "evolutionary" in caught.value.hint
