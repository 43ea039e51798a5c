"""Recorded candidates made again for a resumed search."""

from __future__ import annotations

import pytest

from compiler.target.target import Target
from tuner.engine.plan import sketch_search
from tuner.search.base import Candidate
from tuner.task import TuningTask


@pytest.fixture(scope="module")
def search():
    return sketch_search(TuningTask.from_spec("matmul:48,32,24", str(Target.host())), "random", 3)


def test_every_candidate_is_recognised_as_itself(search):
    for candidate in search.strategy.ask(40):
        again = search.recognise(candidate.digest, candidate.trace_json)
        assert (again.sketch, again.decisions) == (candidate.sketch, candidate.decisions)
        fresh = Candidate(again.sketch, again.decisions)
        assert (fresh.digest, fresh.trace_json) == (again.digest, again.trace_json)


def test_what_is_of_another_space_is_not_recognised(search):
    other = sketch_search(TuningTask.from_spec("conv2d:1,4,8,8,4,3,3", str(Target.host())), "random").strategy.ask(1)[0]
    assert search.recognise(other.digest, other.trace_json) is None
    [own] = search.strategy.ask(1)
    for text in ("", "[]", "{}", own.trace_json.replace('"decisions":[', '"decisions":[1,')):
        assert search.recognise("d", text) is None


def test_what_is_built_for_whom(search):
    [candidate] = search.strategy.ask(1)
    assert search.source(None).trace is None
    assert search.source(candidate).trace == candidate.trace_json
    assert search.group == "matmul"
