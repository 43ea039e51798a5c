"""Records moved between stores of every kind stay what they were."""

from __future__ import annotations

import dataclasses
import shutil
from datetime import timedelta

import pytest

from tests.kit.records.runs import BEGAN, TARGET, Lab
from tests.kit.tuner.family_records import made_up, stored
from tuner.interchange import jsonl, transfer
from tuner.interchange.entries import run_ref
from tuner.interchange.transfer import Selection, copy, read, write
from tuner.records.errors import InvalidRecord
from tuner.records.model import RunState, Trial
from tuner.records.store import RecordStore


def plain(trial: Trial) -> dict[str, object]:
    """A trial without what only its own store knows."""
    kept = dataclasses.asdict(trial)
    return {name: value for name, value in kept.items() if name not in ("id", "run_id", "task_id", "device_id")}


@pytest.fixture
def source(sqlite_template, tmp_path):
    with RecordStore.open(shutil.copyfile(sqlite_template, tmp_path / "source.db")) as opened:
        yield Lab(opened)


class TestTransfer:
    def test_a_copied_run_is_the_same_run(self, source, store):
        run = source.whole_run()
        merged = copy(source.store, store)
        assert (merged.runs, merged.trials, merged.known_runs) == (1, 9, 0)
        (copied,) = store.runs.newest()
        assert run_ref(copied) == run_ref(run)
        assert (copied.state, copied.finished_at, copied.trials, copied.failed) == (
            RunState.FINISHED,
            run.finished_at,
            8,
            1,
        )
        assert [plain(t) for t in store.trials.all(copied.id)] == [plain(t) for t in source.store.trials.all(run.id)]
        assert store.runs.failures(copied.id)[0].first_text == "signal 11\nunder way: call main"

    def test_the_best_config_follows(self, source, store):
        source.whole_run()
        copy(source.store, store)
        mine, theirs = (s.best.look_up(source.task.key, TARGET, "zen3/2t").config for s in (store, source.store))
        assert mine is not None
        assert theirs is not None
        assert (mine.digest, mine.samples, mine.device, mine.toolchain) == (
            theirs.digest,
            theirs.samples,
            theirs.device,
            theirs.toolchain,
        )

    def test_a_faster_run_from_elsewhere_takes_over(self, source, store):
        Lab(store).whole_run("mine", BEGAN, scale=2.0)
        source.whole_run("theirs", BEGAN + timedelta(days=1), scale=0.5)
        before = store.best.look_up(source.task.key, TARGET, "zen3/2t").config
        copy(source.store, store)
        after = store.best.look_up(source.task.key, TARGET, "zen3/2t").config
        assert before is not None
        assert after is not None
        assert after.cost < before.cost

    def test_families_come_along_once_and_the_newest_stays_in_use(self, source, store):
        run, record = source.whole_run(), made_up("dense:M,8,16", ["M=1,4"])
        theirs = source.store.families.add(dataclasses.replace(stored(record), run_id=run.id))
        assert copy(source.store, store).families == 1
        [copied] = store.families.newest()
        assert copied == dataclasses.replace(theirs, id=copied.id, run_id=store.runs.newest()[0].id)
        assert copy(source.store, store).families == 0
        mine = store.families.add(stored(record))
        source.store.families.add(stored(record), theirs.created_at - timedelta(days=1))
        assert copy(source.store, store).families == 1
        assert store.families.in_use(mine.key, mine.target) == mine
        assert [f.current for f in store.families.newest()] == [False, True, False]

    def test_a_family_comes_under_the_key_of_what_it_computes(self, source, store):
        kept = stored(made_up("dense:M,8,16", ["M=1,4"]))
        source.store.families.add(dataclasses.replace(kept, key="0" * 64))
        assert [copy(source.store, store).families for _ in range(2)] == [1, 0]
        assert store.families.newest()[0].key == kept.key

    def test_copying_again_adds_nothing(self, source, store):
        source.whole_run()
        copy(source.store, store)
        again = copy(source.store, store)
        assert (again.runs, again.trials, again.known_runs, again.known_trials) == (0, 0, 1, 9)
        assert len(store.runs.newest()) == 1

    def test_a_copy_back_adds_nothing(self, source, store):
        source.whole_run()
        copy(source.store, store)
        assert copy(store, source.store).runs == 0

    def test_an_interrupted_copy_is_taken_up(self, source, store, monkeypatch):
        monkeypatch.setattr(transfer, "BATCH", 5)
        source.whole_run()
        entries = list(read(source.store))
        write(store, entries[: len(entries) - 4])  # the last trials and the end are missing
        (half,) = store.runs.newest()
        assert half.state is RunState.INTERRUPTED
        assert half.trials == 4
        assert write(store, entries).trials == 4
        (whole,) = store.runs.newest()
        assert whole.state is RunState.FINISHED
        assert whole.trials == 8

    def test_a_run_that_grew_is_continued(self, source, store):
        run = source.start()
        source.trials(run, range(4))
        copy(source.store, store)
        assert store.runs.newest()[0].state is RunState.INTERRUPTED  # nobody works on it here
        source.trials(run, range(4, 9))
        source.store.runs.set_state(run.id, RunState.FINISHED)
        assert copy(source.store, store).trials == 5
        assert store.runs.newest()[0].state is RunState.FINISHED

    def test_a_run_that_went_on_in_both_places_keeps_its_own_trials(self, source, store):
        run = source.start()
        source.trials(run, range(4))
        copy(source.store, store)
        mine = store.runs.newest()[0]
        Lab(store).trials(mine, range(4, 7), scale=3.0)
        source.trials(run, range(4, 9))
        merged = copy(source.store, store)
        assert merged.diverged == [mine.id]
        assert merged.trials == 0
        assert merged.left_out == 3
        assert store.runs.get(mine.id).trials == 6

    def test_only_the_selected_runs_are_copied(self, source, store):
        first = source.whole_run("first")
        source.whole_run("second", BEGAN + timedelta(days=1))
        assert copy(source.store, store, Selection(runs=frozenset([first.id]))).runs == 1
        assert copy(source.store, store, Selection(workload="no such workload")).runs == 0
        assert copy(source.store, store, Selection(workload=source.task.name)).runs == 1

    def test_through_a_file(self, source, store, tmp_path):
        source.whole_run()
        path = tmp_path / "records.jsonl"
        with path.open("wb") as out:
            assert jsonl.dump(read(source.store), out) == 9
        assert write(store, jsonl.load(path)).trials == 9


class TestPrune:
    def test_a_run_with_the_best_config_is_kept(self, store):
        lab = Lab(store)
        best, other = lab.whole_run(), lab.whole_run("slow", BEGAN + timedelta(days=1), scale=4.0)
        assert "best config" in store.runs.removable(best.id)
        with pytest.raises(InvalidRecord, match="best config"):
            store.runs.remove(best.id)
        assert store.runs.removable(other.id) == ""
        assert store.runs.remove(other.id) == 9
        assert [run.id for run in store.runs.newest()] == [best.id]
        assert store.runs.get(best.id).trials == 8
        assert len(list(store.trials.all(best.id))) == 9

    def test_a_run_under_way_is_kept(self, store):
        run = Lab(store).start()
        assert "running" in store.runs.removable(run.id)

    def test_candidates_go_with_their_last_trial(self, store):
        lab = Lab(store)
        lab.whole_run()
        gone = lab.whole_run("slow", BEGAN + timedelta(days=1), scale=4.0)
        store.runs.remove(gone.id)
        store.compact()
        # the first run tried the same candidates, so all of them are still there
        assert len(store.trials.measured_digests(lab.task.key, TARGET, "zen3/2t")) == len({*lab.traces[1:9]})


def test_stats_count_what_is_there(store):
    lab = Lab(store)
    lab.whole_run()
    lab.start("second", BEGAN + timedelta(days=1))
    stats = store.stats()
    assert (stats.runs, stats.trials, stats.failed, stats.workloads, stats.devices) == (2, 8, 1, 1, 1)
    assert stats.runs_by_state == {"finished": 1, "running": 1}
    assert stats.failures == {"crash": 1}
    (row,) = stats.by_workload
    assert (row.workload, row.runs, row.trials) == (lab.task.name, 2, 8)
    assert row.best_cost is not None
    assert stats.size
    assert stats.size > 1000


def test_stats_of_an_empty_store(store):
    stats = store.stats()
    assert (stats.runs, stats.trials, stats.by_workload, stats.first_run) == (0, 0, (), None)
