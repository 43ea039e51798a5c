"""No query of the store reads a whole table that grows: the databases are asked how they would run each."""

from __future__ import annotations

import dataclasses

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.farm import KEY, V3, ZEN3, Farm, failed, measured
from tests.kit.records.plans import Plans
from tuner.records.farm.model_farm import DeviceEventKind, NewBenchResult, NewBenchRun, Role
from tuner.records.model import TrialStatus
from tuner.records.runs.browse import TrialFilter


def test_no_query_of_tuning_and_serving_walks_a_growing_table(farm: Farm) -> None:
    store = farm.store
    run = farm.run()
    trial = measured(run, "d", 1.0, device=farm.zen3)
    number = store.add_trial(trial)
    store.add_trial(failed(run, "e", FailureKind.BUILD, "t"))
    plans = Plans(store)
    with plans.watched():
        store.claim(run.tasks[0].id, farm.zen3, ["d", "e", "g"])
        store.take_run(run.id, "me")
        store.renew_run(run.id, "me")
        store.add_trials([trial, trial, dataclasses.replace(trial, digest="f")])
        store.run(run.id)
        store.runs(limit=5, before=99)
        store.trial(number)
        store.trials(run.id, after=1, limit=5)
        store.trials(run.id, before=5, limit=5)
        store.trials(run.id, status=TrialStatus.FAILED)
        store.sample_trials(run.id, KEY)
        store.best_curve(run.id, KEY)
        store.failure_histogram(run.id)
        store.run_digests(run.id)
        store.measured_digests(KEY, V3, ZEN3)
        found = store.best(KEY, V3, ZEN3).config
        assert found is not None
        store.best(KEY, V3)
        store.best(KEY, "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu", ZEN3)
        store.best("f" * 64, V3, ZEN3)
        store.near("SSR:float32", V3, ZEN3)
        store.near_configs("SSR:float32", V3, ZEN3)
        store.near_configs("SSR:float32", V3)
        store.functions([KEY])
        store.runners_up(found)
        store.best_configs(after=1, limit=5)
        store.newest_best_configs(5)
        store.best_config(1)
        store.workloads(after=1, limit=5)
        store.devices(after=1, limit=5)
        store.top_traces(KEY, 5)
        for wanted in (TrialFilter(), TrialFilter(run=run.id, status=TrialStatus.OK), TrialFilter(workload=KEY)):
            store.find_trials(wanted)
        store.request_stop(run.id, "ada")
    assert plans.scans == []


def test_no_query_around_tuning_walks_a_growing_table(farm: Farm) -> None:
    store = farm.store
    farm.trial(farm.run(), "d", 1.0)
    bench = store.start_bench_run(NewBenchRun(suite="s", spec={}, devices="cpu", toolchain={}))
    plans = Plans(store)
    with plans.watched():
        for kind in DeviceEventKind:
            store.record_device_event(farm.zen3, kind)
        store.device_events("zen")
        store.newest_device_events(before=9)
        token, secret = store.new_token("t", Role.READ)
        store.find_token(secret)
        store.note_token_use(token.id)
        store.tokens()
        store.revoke_token("t")
        store.create_release("r", workloads=[KEY])
        store.approve_release("r", "ada")
        store.release_best("r", KEY, V3, ZEN3)
        store.releases(before=9)
        store.release_entries("r")
        result = NewBenchResult(kernel="k", target_id=farm.v3.id, device_id=farm.zen3, samples=(1.0,))
        store.add_bench_results(bench.id, [result])
        store.bench_results(bench.id, after=1)
        store.bench_runs(before=9)
        store.bench_series("k", "zen")
        store.device_trials("zen")
        store.device_benchmarks("zen")
        store.left_runs(lambda owner: False)
    assert plans.scans == []
