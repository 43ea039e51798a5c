"""A task begins with what a store knows of workloads alike."""

from __future__ import annotations

import pytest

from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from tests.kit.tuner.models import candidates, fill, made_up_cost, task
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, sketch_search
from tuner.families.family import Family, FamilySpec
from tuner.families.plan import family_search
from tuner.families.sizes import parse_shapes
from tuner.model.errors import ModelError
from tuner.model.features import FEATURE_VERSION
from tuner.model.guide import Guide
from tuner.model.library import newest
from tuner.records.parts.cost_models import NewCostModel
from tuner.records.store import RecordStore
from tuner.search.base import Candidate, Recorded
from tuner.search.random import RandomSearch
from tuner.space.generate import generate
from tuner.transfer.warm import WarmStarted, neighbours, warm_start

SPECS = ["matmul:32,32,32", "matmul:128,128,128", "dense:32,32,32"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with RecordStore.open(tmp_path_factory.mktemp("warm") / "records.db", create=True) as store:
        fill(store, SPECS, 8)
        yield store


def test_the_nearest_workloads_of_the_family_are_found(store):
    near = neighbours(store, task("matmul:64,32,32"))
    assert [n.name.removesuffix(":float32") for n in near] == ["matmul:32,32,32", "matmul:128,128,128"]
    assert near[0].away < near[1].away
    assert all(len(n.traces) == 4 for n in near)


def test_their_traces_become_legal_candidates_of_the_new_space(store):
    here = task("matmul:61,37,29")
    sketches = generate(here.func, here.target)
    start = warm_start(here, sketches, neighbours(store, here))
    assert 0 < len(start.candidates) <= 8
    assert len({c.digest for c in start.candidates}) == len(start.candidates)
    assert set(start.sources) <= {"matmul:32,32,32:float32", "matmul:128,128,128:float32"}
    assert any(isinstance(c, Candidate) for c in start.candidates)
    apply_trace(here.func, Trace.from_json(start.candidates[0].trace_json))


def test_the_fastest_of_the_nearest_comes_first(store):
    here = task("matmul:32,32,32")  # it is in the store itself
    start = warm_start(here, generate(here.func, here.target), neighbours(store, here))
    best = min(candidates(here, 8), key=made_up_cost)
    assert made_up_cost(start.candidates[0]) == made_up_cost(best)


def test_a_family_begins_with_runs_of_single_sizes(store):
    family = Family(FamilySpec.parse("matmul:M,32,32"), parse_shapes(["M=32,48"]))
    target = str(task("matmul:32,32,32").target)
    found = family_search(family, target, RunOptions(trials=4), 2, Knowledge(store))
    assert all(search.warm.candidates for search in found.searches)
    asked = {candidate.digest for candidate in found.searches[0].strategy.ask(8)}
    assert found.searches[0].warm.candidates[0].digest in asked
    alone = family_search(family, target, RunOptions(trials=4), 2, Knowledge(store, warm=False))
    assert not any(search.warm.candidates for search in alone.searches)


def test_another_target_is_nothing_to_begin_from(store):
    assert neighbours(store, task("matmul:64,32,32", "llvm -mcpu=x86-64-v3 -num-cores=7")) == []


def test_a_search_begins_with_them_and_says_so(store):
    here = task("matmul:48,32,32")
    search = sketch_search(here, knowledge=Knowledge(store))
    digests = {c.digest for c in search.warm.candidates}
    assert digests
    asked = search.strategy.ask(2 * len(digests) + 4)
    assert digests <= {c.digest for c in asked}
    assert len({c.digest for c in asked}) == len(asked)
    assert search.guide == "the shipped model of llvm-x86_64-256"
    for candidate in asked:
        search.strategy.tell(candidate, 1e-5)
    assert search.strategy.ask(1)


def test_a_cold_search_does_not(store):
    here = task("matmul:48,32,32")
    search = sketch_search(here, knowledge=Knowledge(store, warm=False, models=False))
    assert search.warm.candidates == ()
    assert search.guide == "the analytic draft"


# ------------------------------------------------------------------------------ taking turns


def few():
    here = task("matmul:16,16,16")
    return generate(here.func, here.target), candidates(here, 8)


def test_turns_end_when_either_side_is_used_up():
    sketches, points = few()
    strategy = WarmStarted(RandomSearch(sketches, 0), [*points[:3], Recorded("elsewhere", "{}")])
    asked = strategy.ask(12)
    assert [c.digest for c in asked[1::2][:4]] == [*(c.digest for c in points[:3]), "elsewhere"]
    assert len({c.digest for c in asked}) == 12
    strategy.tell(Recorded("elsewhere", "{}"), 1.0)  # the inner search never sees it


def test_an_exhausted_search_leaves_what_there_is_to_begin_with():
    _, points = few()

    class Nothing:
        def ask(self, count):
            return []

        def tell(self, candidate, cost):
            raise AssertionError

    strategy = WarmStarted(Nothing(), points[:2])
    assert len(strategy.ask(5)) == 2
    assert strategy.ask(5) == []


def test_a_candidate_told_before_it_was_offered_is_not_offered():
    sketches, points = few()
    strategy = WarmStarted(RandomSearch(sketches, 0), points[:2])
    strategy.tell(points[0], 1.0)
    assert points[0].digest not in {c.digest for c in strategy.ask(6)}


# ------------------------------------------------------------------------------------- guides


def test_a_model_that_is_of_no_use_is_said_and_gone_without(tmp_path):
    with RecordStore.open(tmp_path / "r.db", create=True) as store:
        broken = NewCostModel(
            target_family="llvm-x86_64-256", feature_version=FEATURE_VERSION, format="lightgbm", body=b"tree\n",
            trained_on={}, rank_accuracy={"spearman": 0.9},
        )  # fmt: skip
        store.cost_models.add(broken)
        search = sketch_search(task("matmul:16,16,16"), knowledge=Knowledge(store))
    assert search.guide.startswith("the analytic draft, because the model is of no use:")
    assert len(search.strategy.ask(4)) == 4


def test_a_stored_model_that_ranks_badly_leaves_the_shipped_one_in_use(tmp_path):
    with RecordStore.open(tmp_path / "r.db", create=True) as store:
        for accuracy in ({}, {"spearman": -0.1}):
            poor = NewCostModel(
                target_family="llvm-x86_64-256", feature_version=FEATURE_VERSION, format="lightgbm", body=b"never read",
                trained_on={}, rank_accuracy=accuracy,
            )  # fmt: skip
            store.cost_models.add(poor)
            assert newest(store, "llvm-x86_64-256").origin == "the shipped model of llvm-x86_64-256"


def test_without_features_the_sketches_own_drafts_are_gone_by():
    here, other = task("matmul:16,16,16"), task("conv2d:1,4,8,8,4,3,3")
    sketches = generate(other.func, other.target)
    guide = Guide.of(sketches, here.func, here.target)  # sketches of another function: no trace applies
    assert guide.says.startswith("the sketches' own drafts, because there are no features:")
    rows, prior = guide.describe(sketches[0], [(0,) * len(sketches[0].decisions)])
    assert rows.shape[0] == prior.shape[0] == 1


def test_a_model_found_broken_does_not_stop_a_guide():
    def find():
        raise ModelError("it is damaged")

    here = task("matmul:16,16,16")
    assert "it is damaged" in Guide.of(generate(here.func, here.target), here.func, here.target, find).says
