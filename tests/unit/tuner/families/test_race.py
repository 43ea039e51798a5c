"""The race over sizes, simulated: it finds what serves all of them, and spares what loses."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.schedule.core.trace import Trace
from tuner.families.configs import FamilyConfig, realised
from tuner.families.portfolio import choose_portfolio
from tuner.families.race import Entrant, Race
from tuner.families.record import FamilyRecord, make_record
from tuner.families.sizes import FamilyError, SizeList
from tuner.search.base import Candidate
from tuner.search.random import RandomSearch
from tuner.space.sketch import Decision, Sketch, anything, level

ROWS, WIDE = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8)


class NamedSketch(Sketch):
    def trace_json(self, indices: tuple[int, ...]) -> str:  # type: ignore[override]
        return f"{self.name} {self.values(indices)}"


def space(size: int) -> tuple[Sketch, ...]:
    rows = tuple(value for value in ROWS if value <= size)
    decisions = (Decision("rows", rows), Decision("wide", WIDE))
    return (NamedSketch("tiles", Trace(), decisions, anything, level),)


def cost(size: int, values: dict[str, int]) -> float | None:
    """Long sizes want many rows, short ones few; one config never works."""
    if values == {"rows": 2, "wide": 1}:
        return None
    wanted = min(32, max(1, size // 8))
    apart = abs(math.log2(values["rows"] / wanted)) + 0.5 * abs(math.log2(values["wide"] / 4))
    return size * 1e-6 * (1 + 0.3 * apart)


def run(sizes: SizeList, budget: int, most: int, seed: int) -> tuple[Race, Counter[tuple[str, int]]]:
    spaces = [space(size) for (size,) in sizes.sizes]
    race = Race(sizes, [Entrant(s, RandomSearch(s, seed + at), budget) for at, s in enumerate(spaces)], most)
    asked: Counter[tuple[str, int]] = Counter()
    searches = race.searches()
    for _ in range(budget):
        for at, search in enumerate(searches):
            for candidate in search.ask(1):
                assert isinstance(candidate, Candidate)
                asked[candidate.digest, at] += 1
                search.tell(candidate, cost(sizes.sizes[at][0], candidate.sketch.values(candidate.decisions)))
    return race, asked


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_race_finds_what_serves_all_sizes(seed: int) -> None:
    sizes = SizeList(("M",), tuple((m,) for m in (1, 5, 16, 17, 48, 64, 100, 128, 197, 256, 384, 512)))
    race, asked = run(sizes, 12, 3, seed)
    assert set(asked.values()) == {1}, "no candidate twice"
    times = race.timings()
    for config, row in zip(race.configs, times.sound):
        assert row or dict(config.values) == {"rows": 2, "wide": 1}, "what failed at one size is out"
    found = choose_portfolio(times, sizes.weights, 3)
    assert None not in found.picks, "the portfolio serves every size"
    true = [
        min(c for r in ROWS for w in WIDE if r <= m and (c := cost(m, {"rows": r, "wide": w}))) for (m,) in sizes.sizes
    ]
    loss = math.exp(
        sum(math.log(times.seconds[pick, at] / true[at]) for at, pick in enumerate(found.picks) if pick is not None)
        / len(true)
    )
    assert loss < 1.25
    record = make_record("toy", {}, "llvm", sizes, race.configs, times, 3, race.trace, [None] * len(true))
    assert FamilyRecord.from_json(record.to_json()) == record
    assert record.digest == FamilyRecord.from_json(record.to_json()).digest
    with pytest.raises(FamilyError, match="damaged"):
        FamilyRecord.from_json({**record.to_json(), "best": [1.0]})
    with pytest.raises(FamilyError, match="sizes for M, not N"):
        record.size_of({"N": 1})


def test_a_config_that_loses_early_is_not_measured_everywhere() -> None:
    sizes = SizeList(("M",), tuple((m,) for m in range(256, 512, 16)))
    race, _ = run(sizes, 10, 1, seed=3)
    times = race.timings()
    measured = {config: int((times.seconds[at] > 0).sum()) for at, config in enumerate(race.configs)}
    best = FamilyConfig("tiles", (("rows", 32), ("wide", 4)))
    bad = [count for config, count in measured.items() if dict(config.values)["rows"] <= 4]
    assert max(bad, default=0) <= len(sizes.sizes) // 2
    assert measured.get(best, 0) == max(measured.values())


def test_a_config_at_other_sizes_is_the_nearest_or_nothing() -> None:
    config = FamilyConfig("tiles", (("rows", 32), ("wide", 4)))
    near = realised(config, space(8))
    assert near is not None
    assert near.sketch.values(near.decisions) == {"rows": 8, "wide": 4}
    assert realised(config, space(8), exact=True) is None
    assert realised(config, space(64), exact=True) is not None
    assert realised(FamilyConfig("rows", (("abreast", 4),)), space(64)) is None
    assert FamilyConfig.from_json(config.to_json()) == config


def test_finals_take_the_place_of_the_search() -> None:
    """Candidates that were not in the finals are scaled to their level; other sizes keep their times."""
    sizes = SizeList(("M",), ((32,), (64,)))
    race, _ = run(sizes, 6, 2, seed=1)
    before = race.timings().seconds
    tried = [at for at in range(len(race.configs)) if 0 < before[at, 0] < math.inf]
    first, second, other = tried[:3]
    digests = [found.digest for at in (first, second) if (found := race.candidate(at, 0)) is not None]
    race.settle(0, {digests[0]: 2 * before[first, 0], digests[1]: 4 * before[second, 0], "unknown": 1.0})
    after = race.timings().seconds
    assert after[[first, second, other], 0] == pytest.approx(before[[first, second, other], 0] * [2, 4, 3])
    np.testing.assert_array_equal(after[:, 1], before[:, 1])
    race.settle(1, {})
    np.testing.assert_array_equal(race.timings().seconds, after)
