"""Records around tuning, over every backend: device events, tokens, stops, benchmarks, all trials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.farm import KEY, SPR, TOOLCHAIN, V3, V4, ZEN3, Farm, failed, measured
from tuner.records.errors import InvalidRecord, RecordNotFound, RunStopped
from tuner.records.farm.model_farm import DeviceEventKind, NewBenchResult, NewBenchRun, Role
from tuner.records.model import NewDevice, RunState, TrialPurpose, TrialStatus
from tuner.records.runs.browse import Cursor, TrialFilter
from tuner.records.store import RecordStore

T0 = datetime(2099, 1, 1, tzinfo=UTC)  # after every device was first seen


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


class TestDeviceEvents:
    def _measure(self, farm: Farm, digest: str, minutes: float, *samples: float, device: int | None = None) -> int:
        run = farm.run()
        trial = measured(run, digest, *samples, device=device or farm.zen3, finished_at=at(minutes))
        return farm.store.trials.add(trial)

    def test_what_was_measured_before_a_failed_check_no_longer_counts(self, farm: Farm) -> None:
        self._measure(farm, "old", 1, 1.0, 1.01)
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_PASSED, at=at(2))
        doubtful = self._measure(farm, "fast", 3, 0.5, 0.51)
        assert farm.best_digest() == "fast"
        event = farm.store.devices.record_event(
            farm.zen3, DeviceEventKind.CHECK_FAILED, "too slow", at=at(4), data={"compute": 1.5}
        )
        assert (event.device, event.since, event.message, event.data) == ("zen", at(2), "too slow", {"compute": 1.5})
        assert farm.best_digest() == "old"
        assert farm.store.trials.get(doubtful).suspect
        assert [t.digest for t in farm.store.trials.fastest(KEY, 5)] == ["old"]

    def test_until_the_next_passed_check(self, farm: Farm) -> None:
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED, at=at(1))
        during = self._measure(farm, "during", 2, 0.5)
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_PASSED, at=at(3))
        after = self._measure(farm, "after", 4, 1.0)
        assert (farm.store.trials.get(during).suspect, farm.store.trials.get(after).suspect) == (True, False)
        assert farm.best_digest() == "after"

    def test_other_devices_are_not_in_doubt(self, farm: Farm) -> None:
        other = farm.device("zen-2", ZEN3)
        self._measure(farm, "theirs", 1, 1.0, device=other)
        self._measure(farm, "mine", 1, 0.5)
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED, at=at(2))
        assert farm.best_digest() == "theirs"

    def test_a_lookup_without_any_other_measurement_says_so(self, farm: Farm) -> None:
        self._measure(farm, "only", 1, 1.0)
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED, at=at(2))
        found = farm.store.best.look_up(KEY, V3, ZEN3)
        assert found.match == "miss"
        assert "measurements of zen are set aside" in found.explain[-1]

    def test_clearing_a_device_brings_its_measurements_back(self, farm: Farm) -> None:
        baseline = farm.run()
        number = farm.store.trials.add(
            measured(baseline, "b", 9.0, device=farm.zen3, purpose=TrialPurpose.BASELINE, finished_at=at(1))
        )
        self._measure(farm, "only", 1, 1.0)
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED, at=at(2))
        assert farm.store.trials.get(number).suspect
        farm.store.devices.record_event(farm.zen3, DeviceEventKind.CLEARED, "the fan was unplugged", at=at(5))
        assert farm.best_digest() == "only"
        assert not farm.store.trials.get(number).suspect

    def test_events_are_listed_by_device_and_for_the_fleet(self, farm: Farm) -> None:
        kinds = list(DeviceEventKind)
        for i, kind in enumerate(kinds):
            farm.store.devices.record_event(farm.zen3, kind, at=at(i))
        farm.store.devices.record_event(farm.spr, DeviceEventKind.QUARANTINED, at=at(9))
        assert [e.kind for e in farm.store.devices.events("zen")] == kinds[::-1]
        newest = farm.store.devices.newest_events(2)
        assert [e.device for e in newest] == ["spr", "zen"]
        assert len(farm.store.devices.newest_events(before=newest[-1].id)) == len(kinds) - 1
        with pytest.raises(RecordNotFound):
            farm.store.devices.record_event(999, DeviceEventKind.RETURNED)


class TestTokens:
    def test_a_token_opens_until_it_is_revoked(self, store: RecordStore) -> None:
        made, secret = store.tokens.new("ci", Role.READ, created_by="ada")
        assert store.tokens.find(secret) == made
        assert (made.role, made.created_by, made.used_at) == (Role.READ, "ada", None)
        assert store.tokens.find(secret + "x") is None
        store.tokens.note_use(made.id)
        assert store.tokens.all()[0].used_at is not None
        assert store.tokens.revoke("ci").revoked_at is not None
        assert store.tokens.find(secret) is None
        with pytest.raises(InvalidRecord, match="already"):
            store.tokens.new("ci", Role.ADMIN)
        with pytest.raises(RecordNotFound):
            store.tokens.revoke("nobody")

    def test_a_token_expires(self, store: RecordStore) -> None:
        now = datetime.now(UTC)
        _, old = store.tokens.new("old", Role.TUNE, expires_at=now - timedelta(seconds=1))
        _, new = store.tokens.new("new", Role.TUNE, expires_at=now + timedelta(days=1))
        assert store.tokens.find(old) is None
        assert store.tokens.find(new) is not None

    def test_the_secret_itself_is_nowhere_in_the_store(self, store: RecordStore) -> None:
        _, secret = store.tokens.new("ci", Role.READ)
        with store._engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM tokens").all()
        assert secret.removeprefix("tf_") not in str(rows)

    def test_roles_include_the_lesser_ones(self) -> None:
        allowed = [(a, b) for a in Role for b in Role if a.allows(b)]
        assert allowed == [
            (Role.READ, Role.READ), (Role.TUNE, Role.READ), (Role.TUNE, Role.TUNE),
            (Role.ADMIN, Role.READ), (Role.ADMIN, Role.TUNE), (Role.ADMIN, Role.ADMIN),
        ]  # fmt: skip


class TestStops:
    def test_its_owner_learns_of_it(self, farm: Farm) -> None:
        run = farm.run()
        farm.store.runs.take(run.id, "me")
        farm.store.runs.renew(run.id, "me")
        assert farm.store.runs.request_stop(run.id, "ada").state is RunState.RUNNING
        with pytest.raises(RunStopped, match="stopped by ada"):
            farm.store.runs.renew(run.id, "me")
        farm.store.runs.leave(run.id, "me", RunState.INTERRUPTED, "stopped by ada")
        farm.store.runs.take(run.id, "me")  # resumed: what was asked before is done with
        farm.store.runs.renew(run.id, "me")

    def test_a_run_nobody_tunes_ends_at_once(self, farm: Farm) -> None:
        run = farm.run()
        stopped = farm.store.runs.request_stop(run.id, "ada")
        assert (stopped.state, stopped.message) == (RunState.INTERRUPTED, "stopped by ada")
        with pytest.raises(InvalidRecord, match="has ended"):
            farm.store.runs.request_stop(run.id)
        with pytest.raises(RecordNotFound):
            farm.store.runs.request_stop(999)


class TestAllTrials:
    def _fill(self, farm: Farm) -> list[int]:
        ids = []
        for run in (farm.run(), farm.run(farm.v4.id)):
            for i in range(6):
                device = (farm.zen3, farm.spr)[i % 2]
                ids.append(farm.store.trials.add(measured(run, f"d{i}", 1.0 + i, device=device, finished_at=at(i))))
            ids.append(farm.store.trials.add(failed(run, "f", FailureKind.BUILD, "no")))
        return ids

    def _all(self, farm: Farm, limit: int = 100, **wanted: object) -> list[int]:
        found: list[int] = []
        cursor: Cursor | None = Cursor()
        while cursor is not None:
            page, cursor = farm.store.trials.find(TrialFilter(**wanted), cursor, limit)  # type: ignore[arg-type]
            assert len(page) <= limit
            found += [t.id for t in page]
        return found

    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    def test_pages_of_any_size_bring_every_trial_once(self, farm: Farm, limit: int) -> None:
        ids = self._fill(farm)
        assert self._all(farm, limit) == ids
        assert self._all(farm, limit, device_class=SPR) == [ids[i] for i in (1, 3, 5, 8, 10, 12)]

    def test_filters(self, farm: Farm) -> None:
        ids = self._fill(farm)
        assert self._all(farm, workload=KEY) == self._all(farm, workload="matmul") == ids
        assert self._all(farm, workload="other") == []
        assert self._all(farm, target=V4) == self._all(farm, run=2) == ids[7:]
        assert self._all(farm, device="spr", run=1) == [ids[1], ids[3], ids[5]]
        assert self._all(farm, status=TrialStatus.FAILED) == [ids[6], ids[13]]
        assert self._all(farm, since=at(4), until=at(5)) == [ids[4], ids[11]]
        assert self._all(farm, suspect=True) == []

    def test_a_page_looks_at_so_many_and_no_more(self, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = self._fill(farm)
        monkeypatch.setattr("tuner.records.runs.browse.MOST_LOOKED_AT", 4)
        page, cursor = farm.store.trials.find(TrialFilter(status=TrialStatus.FAILED))
        assert (page, str(cursor)) == ((), "1.4")
        assert self._all(farm, status=TrialStatus.FAILED) == [ids[6], ids[13]]

    def test_cursors_are_checked(self) -> None:
        assert Cursor.parse("12.34") == Cursor(12, 34)
        for text in ("", "1", "1.", "a.b", "-1.2", "1.2.3", "1" * 30 + ".1"):
            with pytest.raises(InvalidRecord):
                Cursor.parse(text)

    def test_runners_up_and_ties(self, farm: Farm) -> None:
        run = farm.run()
        farm.trial(run, "best", 1.0, 1.001, 1.002)
        farm.trial(run, "close", 1.003, 1.004, 1.005)
        farm.trial(run, "far", 2.0, 2.001, 2.002)
        config = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert config is not None
        found = farm.store.best.runners_up(config)
        assert [(r.digest, str(r.verdict)) for r in found] == [("close", "tie"), ("far", "slower")]


class TestBenchmarks:
    def test_runs_results_and_series(self, farm: Farm) -> None:
        store = farm.store
        new = NewBenchRun(suite="gemm", spec={"kernels": ["matmul"]}, devices="cpu", toolchain=TOOLCHAIN)
        runs = [store.benches.start(new) for _ in range(2)]
        for number, run in enumerate(runs):
            good = NewBenchResult(
                kernel="matmul", target_id=farm.v3.id, device_id=farm.zen3, workload_id=farm.workload.id,
                samples=(1.0 + number, 1.1 + number, 1.2 + number), calibration=0.5, measured_at=at(number),
            )  # fmt: skip
            bad = NewBenchResult(kernel="conv", target_id=farm.v3.id, device_id=farm.spr, failure="crash")
            store.benches.add_results(run.id, [good])
            store.benches.add_results(run.id, [bad])
        ended = store.benches.end(runs[0].id, RunState.FINISHED, at=at(5))
        assert (ended.suite, ended.state, ended.results, ended.failed, ended.finished_at) == (
            "gemm", "finished", 2, 1, at(5),
        )  # fmt: skip
        assert [r.id for r in store.benches.newest()] == [runs[1].id, runs[0].id]
        assert store.benches.get(runs[1].id).finished_at is None
        first, second = store.benches.results(runs[0].id)
        assert (first.cost, first.calibration, first.device) == (1.1, 0.5, "zen")
        assert first.toolchain == "llvm-22,tunefarm-0.1"
        assert first.low is not None
        assert (second.sequence, second.failure, second.cost) == (2, "crash", None)
        assert store.benches.results(runs[0].id, after=1) == (second,)
        assert [r.cost for r in store.benches.series("matmul", "zen")] == [1.1, 2.1]

    def test_what_a_device_measured(self, farm: Farm) -> None:
        """Under all its fingerprints, the latest first, and nobody else's."""
        store, run = farm.store, farm.run()
        again = store.devices.upsert(NewDevice(name="zen", key="cpu", device_class=ZEN3, fingerprint={"kernel": 2})).id
        assert again != farm.zen3
        for number, device in enumerate((farm.zen3, again, farm.spr, again)):
            store.trials.add(measured(run, f"t{number}", 1.0, device=device, finished_at=at(number)))
        assert [trial.digest for trial in store.devices.trials("zen")] == ["t3", "t1", "t0"]
        assert [trial.digest for trial in store.devices.trials("zen", 2)] == ["t3", "t1"]
        assert store.devices.trials("nobody") == store.devices.benchmarks("nobody") == ()
        new = NewBenchRun(suite="gemm", spec={}, devices="cpu", toolchain=TOOLCHAIN)
        for number, device in enumerate((farm.zen3, again, farm.spr)):
            results = [
                NewBenchResult(kernel=kernel, target_id=farm.v3.id, device_id=device, samples=(1.0 + number,))
                for kernel in ("matmul", f"only {number}")
            ]
            store.benches.add_results(store.benches.start(new).id, results)
        found = {result.kernel: result.cost for result in store.devices.benchmarks("zen")}
        assert found == {"matmul": 2.0, "only 0": 1.0, "only 1": 2.0}

    def test_what_is_refused(self, farm: Farm) -> None:
        new = NewBenchRun(suite="gemm", spec={}, devices="cpu", toolchain={})
        run = farm.store.benches.start(new)
        neither = NewBenchResult(kernel="k", target_id=farm.v3.id, device_id=farm.zen3)
        with pytest.raises(InvalidRecord, match="either samples or a failure"):
            farm.store.benches.add_results(run.id, [neither])
        for attempt in (farm.store.benches.get, lambda n: farm.store.benches.end(n, RunState.FAILED)):
            with pytest.raises(RecordNotFound):
                attempt(999)
