"""The record store's contract: which config is the best, and for whom."""

from __future__ import annotations

import json

import pytest

from compiler.errors import TargetError
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.farm import KEY, OTHER_KEY, SPR, TOOLCHAIN, V3, V4, ZEN3, Farm, failed, measured
from tuner.records.errors import RecordNotFound
from tuner.records.lookup.keys import workload_family
from tuner.records.model import NewRun, NewRunTask, TrialPurpose


class TestBest:
    def test_the_fastest_of_a_run(self, farm: Farm) -> None:
        run = farm.run()
        for digest, cost in [("a", 3.0), ("b", 1.0), ("c", 2.0)]:
            farm.trial(run, digest, cost, cost, cost)
        found = farm.store.best.look_up(KEY, V3, ZEN3)
        assert found.match == "exact"
        assert found.config is not None
        config = found.config
        assert (config.digest, config.cost, config.samples) == ("b", 1.0, (1.0, 1.0, 1.0))
        assert (config.workload_name, config.flops, config.run_id, config.device) == ("matmul", 2e9, run.id, "zen")
        assert config.toolchain == "llvm-22,tunefarm-0.1"
        assert json.loads(config.trace) == {"steps": "b"}
        assert config.low <= config.cost <= config.high
        assert farm.store.best.page() == (config,)
        assert farm.store.best.get(config.id) == config
        with pytest.raises(RecordNotFound):
            farm.store.best.get(config.id + 1)

    @pytest.mark.parametrize(("seconds", "slower"), [(0.5, True), (1.1, False), (5.0, False)])
    def test_what_is_slower_than_the_function_as_written_says_so(
        self, farm: Farm, seconds: float, slower: bool
    ) -> None:
        run = farm.run()
        farm.baseline(run, seconds)
        farm.trial(run, "a", 1.0, 1.1, 1.2)
        found = farm.store.best.look_up(KEY, V3, ZEN3)
        assert found.match == "exact"
        assert found.config is not None
        assert (found.config.untuned, found.config.worse_than_untuned) == (seconds, slower)
        assert any("as written is faster" in line for line in found.explain) is slower
        assert len(farm.store.best.near(workload_family("def f"), V3, ZEN3)) == (not slower)

    @pytest.mark.parametrize(("last", "counts"), [(1.5, 1.5), (3.0, 2.0)])
    def test_what_a_config_is_compared_with_is_what_its_run_is(self, farm: Farm, last: float, counts: float) -> None:
        """The shorter of the baseline's times at the start and the end, in one place for both."""
        run = farm.run()
        farm.baseline(run, 2.0)
        farm.trial(run, "a", 1.0)
        farm.store.trials.add(measured(run, "a", 1.25, device=farm.zen3, purpose=TrialPurpose.FINAL))
        farm.baseline(run, last)
        (task,) = farm.store.runs.get(run.id).tasks
        assert (config := farm.store.best.look_up(KEY, V3, ZEN3).config) is not None
        assert (task.baseline_cost, task.best_cost) == (config.untuned, config.cost) == (counts, 1.25)

    def test_a_baseline_on_another_class_of_device_is_no_measure(self, farm: Farm) -> None:
        run = farm.run()
        farm.baseline(run, 2.0)
        farm.trial(run, "a", 1.0)
        farm.baseline(run, 0.5, device=farm.spr)
        (task,) = farm.store.runs.get(run.id).tasks
        assert (config := farm.store.best.look_up(KEY, V3, ZEN3).config) is not None
        assert (task.baseline_cost, config.untuned, config.worse_than_untuned) == (2.0, 2.0, False)

    def test_a_library_that_is_faster_is_named(self, farm: Farm) -> None:
        """No build makes it, so builds take the best config all the same."""
        task = NewRunTask(workload_id=farm.workload.id, target_id=farm.v3.id, budget=1, baseline="OpenBLAS")
        run = farm.store.runs.start(NewRun(tasks=(task,), toolchain=TOOLCHAIN))
        farm.baseline(run, 0.5)
        farm.trial(run, "a", 1.0, 1.1, 1.2)
        found = farm.store.best.look_up(KEY, V3, ZEN3)
        assert found.config is not None
        config = found.config
        assert (config.baseline, config.worse_than_untuned, config.as_written) == ("OpenBLAS", True, False)
        assert f"OpenBLAS is faster, 500 ms in run {run.id}" in found.explain
        assert not any("as written" in line for line in found.explain)

    def test_the_function_as_written_counts_where_it_was_measured(self, farm: Farm) -> None:
        """Not on another device class, and not as a run without a baseline could take its first trial for one."""
        elsewhere = farm.run()
        farm.baseline(elsewhere, 0.1, device=farm.spr)
        farm.trial(elsewhere, "z", 1.0)
        farm.trial(farm.run(), "s", 1.0, device=farm.spr)
        for place in (ZEN3, SPR):
            assert (config := farm.store.best.look_up(KEY, V3, place).config) is not None
            assert (config.untuned, config.worse_than_untuned) == (None, False)

    def test_unverified_and_failed_trials_never_count(self, farm: Farm) -> None:
        run = farm.run()
        farm.trial(run, "wrong", 0.1, verified=False)
        farm.store.trials.add(failed(run, "crash", FailureKind.CRASH, "", device=farm.zen3))
        found = farm.store.best.look_up(KEY, V3, ZEN3)
        assert found.match == "miss"
        assert "no verified measurement" in found.explain[0]

    def test_a_tie_of_a_later_run_keeps_the_incumbent(self, farm: Farm) -> None:
        farm.trial(farm.run(), "old", 1.00, 1.01, 1.02)
        later = farm.run()
        farm.trial(later, "tie", 0.98, 0.99, 1.00)
        assert farm.best_digest() == "old"
        farm.trial(later, "clear", 0.80, 0.80, 0.80)
        assert farm.best_digest() == "clear"

    def test_measuring_the_incumbent_again_can_unseat_it(self, farm: Farm) -> None:
        run = farm.run()
        farm.trial(run, "lucky", 0.90)
        farm.trial(run, "steady", 1.00, 1.00, 1.00)
        assert farm.best_digest() == "lucky"
        farm.trial(run, "lucky", 1.20, 1.20, 1.20)
        assert farm.best_digest() == "steady"

    def test_all_samples_of_a_candidate_count(self, farm: Farm) -> None:
        run = farm.run()
        farm.trial(run, "a", 1.0, 1.0)
        farm.trial(run, "a", 2.0, 3.0, 3.0)
        config = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert config is not None
        assert config.samples == (1.0, 1.0, 2.0, 3.0, 3.0)
        assert config.cost == 2.0

    def test_each_toolchain_has_its_own_best(self, farm: Farm) -> None:
        farm.trial(farm.run(), "old", 1.0)
        task = NewRunTask(workload_id=farm.workload.id, target_id=farm.v3.id, budget=1)
        newer = farm.store.runs.start(NewRun(tasks=(task,), toolchain={"tunefarm": "0.2.1", "llvm": "23.0"}))
        farm.trial(newer, "new", 2.0)
        old = farm.store.best.look_up(KEY, V3, ZEN3, "llvm-22,tunefarm-0.1")
        assert (old.match, old.config and old.config.digest) == ("exact", "old")
        assert farm.best_digest() == "new"
        neither = farm.store.best.look_up(KEY, V3, ZEN3, "llvm-99")
        assert (neither.match, neither.config and neither.config.digest) == ("compatible", "new")

    def test_pages_and_filters(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        farm.trial(farm.run(), "s", 1.0, device=farm.spr)
        farm.trial(farm.run(farm.v4.id), "v", 1.0, device=farm.spr)
        page = farm.store.best.page(limit=2)
        assert [c.digest for c in page] == ["z", "s"]
        assert [c.digest for c in farm.store.best.page(after=page[-1].id)] == ["v"]
        assert [c.digest for c in farm.store.best.page(device_class=SPR)] == ["s", "v"]
        assert [c.digest for c in farm.store.best.page(target=V4, workload=KEY)] == ["v"]
        assert farm.store.best.page(workload=OTHER_KEY) == ()
        assert len(farm.store.best.page(workload="matmul")) == 3
        assert [c.digest for c in farm.store.best.newest(2)] == ["v", "s"]


class TestLookup:
    def test_an_unknown_workload(self, farm: Farm) -> None:
        found = farm.store.best.look_up(OTHER_KEY, V3, ZEN3)
        assert (found.match, found.config) == ("miss", None)
        assert OTHER_KEY[:12] in found.explain[0]

    def test_another_device_class_is_never_served_undeclared(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        found = farm.store.best.look_up(KEY, V3, SPR)
        assert found.match == "miss"
        assert ZEN3 in " ".join(found.explain)

    def test_a_declared_class_serves(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        farm.store.devices.declare_compatible(SPR, [ZEN3])
        found = farm.store.best.look_up(KEY, V3, SPR)
        assert (found.match, found.config and found.config.digest) == ("compatible", "z")
        assert "declared" in " ".join(found.explain)
        farm.store.devices.declare_compatible(SPR, [])
        assert farm.store.best.look_up(KEY, V3, SPR).match == "miss"
        with pytest.raises(RecordNotFound):
            farm.store.devices.declare_compatible(SPR, ["unheard of"])

    def test_code_for_fewer_features_runs_on_more(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0, device=farm.spr)
        found = farm.store.best.look_up(KEY, V4, SPR)
        assert (found.match, found.config and found.config.digest) == ("compatible", "z")

    def test_code_for_more_features_is_refused(self, farm: Farm) -> None:
        farm.trial(farm.run(farm.v4.id), "wide", 1.0, device=farm.spr)
        found = farm.store.best.look_up(KEY, V3, SPR)
        assert found.match == "miss"
        assert "avx512f" in " ".join(found.explain)

    def test_another_architecture_is_refused(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        found = farm.store.best.look_up(KEY, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", ZEN3)
        assert found.match == "miss"

    def test_no_device_class_asked_for(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        one = farm.store.best.look_up(KEY, V3)
        assert one.match == "exact"
        assert ZEN3 in " ".join(one.explain)
        assert farm.store.best.look_up(KEY, V4).match == "miss"
        farm.trial(farm.run(), "s", 1.0, device=farm.spr)
        several = farm.store.best.look_up(KEY, V3)
        assert (several.match, several.config and several.config.device_class) == ("compatible", SPR)

    def test_target_text_need_not_be_canonical(self, farm: Farm) -> None:
        farm.trial(farm.run(), "z", 1.0)
        same = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"
        assert farm.store.best.look_up(KEY, same, ZEN3).match == "exact"
        with pytest.raises(TargetError):
            farm.store.best.look_up(KEY, "warp-drive", ZEN3)
