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
    number = store.trials.add(trial)
    store.trials.add(failed(run, "e", FailureKind.BUILD, "t"))
    plans = Plans(store)
    with plans.watched():
        store.trials.claim(run.tasks[0].id, farm.zen3, ["d", "e", "g"])
        store.runs.take(run.id, "me")
        store.runs.renew(run.id, "me")
        store.trials.add_all([trial, trial, dataclasses.replace(trial, digest="f")])
        store.runs.get(run.id)
        store.runs.newest(limit=5, before=99)
        store.trials.get(number)
        store.trials.page(run.id, after=1, limit=5)
        store.trials.page(run.id, before=5, limit=5)
        store.trials.page(run.id, status=TrialStatus.FAILED)
        store.trials.sample(run.id, KEY)
        store.runs.best_curve(run.id, KEY)
        store.runs.failures(run.id)
        store.runs.digests(run.id)
        store.trials.measured_digests(KEY, V3, ZEN3)
        found = store.best.look_up(KEY, V3, ZEN3).config
        assert found is not None
        store.best.look_up(KEY, V3)
        store.best.look_up(KEY, "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu", ZEN3)
        store.best.look_up("f" * 64, V3, ZEN3)
        store.best.near("SSR:float32", V3, ZEN3)
        store.best.near_configs("SSR:float32", V3, ZEN3)
        store.best.near_configs("SSR:float32", V3)
        store.workloads.functions([KEY])
        store.best.runners_up(found)
        store.best.page(after=1, limit=5)
        store.best.newest(5)
        store.best.get(1)
        store.workloads.page(after=1, limit=5)
        store.devices.page(after=1, limit=5)
        store.trials.fastest(KEY, 5)
        for wanted in (TrialFilter(), TrialFilter(run=run.id, status=TrialStatus.OK), TrialFilter(workload=KEY)):
            store.trials.find(wanted)
        store.runs.request_stop(run.id, "ada")
    assert plans.scans == []


def test_no_query_around_tuning_walks_a_growing_table(farm: Farm) -> None:
    store = farm.store
    farm.trial(farm.run(), "d", 1.0)
    bench = store.benches.start(NewBenchRun(suite="s", spec={}, devices="cpu", toolchain={}))
    plans = Plans(store)
    with plans.watched():
        for kind in DeviceEventKind:
            store.devices.record_event(farm.zen3, kind)
        store.devices.events("zen")
        store.devices.newest_events(before=9)
        token, secret = store.tokens.new("t", Role.READ)
        store.tokens.find(secret)
        store.tokens.note_use(token.id)
        store.tokens.all()
        store.tokens.revoke("t")
        store.releases.create("r", workloads=[KEY])
        store.releases.approve("r", "ada")
        store.releases.look_up("r", KEY, V3, ZEN3)
        store.releases.newest(before=9)
        store.releases.entries("r")
        result = NewBenchResult(kernel="k", target_id=farm.v3.id, device_id=farm.zen3, samples=(1.0,))
        store.benches.add_results(bench.id, [result])
        store.benches.results(bench.id, after=1)
        store.benches.newest(before=9)
        store.benches.series("k", "zen")
        store.devices.trials("zen")
        store.devices.benchmarks("zen")
        store.runs.left(lambda owner: False)
    assert plans.scans == []
