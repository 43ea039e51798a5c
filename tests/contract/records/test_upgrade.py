"""Databases that earlier versions made, with data in them, brought to today's schema."""

from __future__ import annotations

import json

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import select

from tests.kit.records.runs import PATIENCE_S, eventually
from tuner.goals import Goal
from tuner.records.db import listening, migrate
from tuner.records.db.database import connect, parse_url, reading, writing
from tuner.records.db.schema import DeviceRow, RunRow, TrialRow, WorkloadRow
from tuner.records.model import RunState
from tuner.records.runs.claims import ClaimAnswer, ClaimState
from tuner.records.store import RecordStore

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"
FINGERPRINT = json.dumps(
    {"cpu_model": "EPYC", "features": ["avx2"], "kernel": "6.1", "caches": [{"level": 1, "size": 32768}]}
)
FUNCTION = 'def f(A: T.Buffer((8, 8), "float32")): with T.block("b"): i, j, k = T.axis.remap("SSR", [x, y, z])'
ADDED = {
    "0001": f"""
INSERT INTO workloads (id, key, name, spec, function, flops, created_at)
  VALUES (1, 'wwww', 'matmul', NULL, '{FUNCTION}', 8.0, 'NOW');
INSERT INTO targets (id, text, kind, features, created_at) VALUES (1, '{TARGET}', 'llvm', '[]', 'NOW');
INSERT INTO device_classes (id, name, features, serves_from, created_at) VALUES (1, 'zen', '[]', '[]', 'NOW');
INSERT INTO devices (id, name, key, device_class_id, fingerprint, fingerprint_digest, first_seen, last_seen)
  VALUES (1, 'box', 'cpu', 1, '{FINGERPRINT}', 'ffff', 'NOW', 'NOW');
INSERT INTO tuning_keys (id, workload_id, target_id, device_class_id, toolchain)
  VALUES (1, 1, 1, 1, 'llvm-22,tunefarm-0.1');
INSERT INTO runs (id, name, state, message, options, command, host, "user", toolchain, started_at, finished_at,
    updated_at, sequence, trials, failed)
  VALUES (1, 'old', 'interrupted', '', '{{}}', '', 'h', 'u', '{{"tunefarm": "0.1.0", "llvm": "22.1.0"}}', 'NOW', NULL,
    'NOW', 1, 1, 0);
INSERT INTO run_tasks (id, run_id, position, workload_id, target_id, budget, trials, failed, baseline_cost, best_cost)
  VALUES (1, 1, 0, 1, 1, 8, 1, 0, 2.0, 0.5);
INSERT INTO candidates (id, workload_id, target_id, digest, trace) VALUES (1, 1, 1, 'abcd', '[]');
INSERT INTO trials (id, run_id, sequence, task_id, key_id, candidate_id, device_id, purpose, status, failure_kind,
    failure_text, samples, cost, mad, noise, verified, eligible, improved, build_s, measure_s, environment,
    measured_by, started_at, finished_at)
  VALUES (1, 1, 1, 1, 1, 1, 1, 'search', 'ok', NULL, '', '[0.5]', 0.5, 0.0, '[]', true, true, true, 0.1, 0.2, '{{}}',
    '', 'NOW', 'NOW');
INSERT INTO best_configs (id, key_id, trial_id, candidate_id, cost, low, high, samples, since, updated_at)
  VALUES (1, 1, 1, 1, 0.5, 0.45, 0.55, '[0.5]', 'NOW', 'NOW');
""",
    "0002": """
INSERT INTO claims (key_id, digest, run_id, expires_at) VALUES (1, 'mine', 1, '2999-01-01 00:00:00+00:00');
UPDATE runs SET owner = 'other', owned_until = 'NOW';
""",
    "0003": """
UPDATE devices SET cpu_model = 'EPYC', kernel = '6.1', cpu_features = '["avx2"]',
  caches = '[{"level": 1, "size": 32768}]';
UPDATE workloads SET family = 'SSR:float32';
INSERT INTO device_events (id, device_id, kind, at, since, message, data)
  VALUES (1, 1, 'quarantined', 'NOW', NULL, '', '{}');
""",
    "0007": """
INSERT INTO tokens (id, name, digest, role, created_by, created_at, expires_at, revoked_at, used_at)
  VALUES (1, 'ci', 'tttt', 'read', 'ann', 'NOW', NULL, NULL, NULL);
""",
    "0008": "UPDATE runs SET held_s = 12.5, busy_s = 10.0;",
    "0010": "INSERT INTO quotas VALUES (1, 'ada', 2.5, NULL, 3, 30, 'admin', '2026-11-20 10:00:00');",
    "0012": """UPDATE trials SET environment = '{"joules": 0.25}';""",
    "0013": "UPDATE trials SET joules = 0.25;",
}
"""Data in what a revision added. Those that are not here added nothing, or what only the program fills."""


def scripts() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrate.migrations_folder()).replace("%", "%%"))
    return config


EARLIER = sorted(each.revision for each in ScriptDirectory.from_config(scripts()).walk_revisions())[:-1]


def make(address: str, revision: str) -> None:
    """A database as of `revision`, with all the data that it can hold."""
    data = "".join(text for since, text in ADDED.items() if since <= revision)
    engine = connect(parse_url(address), create=True)
    # SQLite keeps UTC times without saying so
    now = "2026-05-01 12:00:00" + ("" if engine.dialect.name == "sqlite" else "+00:00")
    with writing(engine) as connection:
        config = scripts()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for statement in filter(str.strip, data.replace("NOW", now).split(";")):
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_the_latest_revision_is_the_programs() -> None:
    directory = ScriptDirectory.from_config(scripts())
    assert migrate.head() == directory.get_current_head()
    assert ADDED.keys() <= {*EARLIER, migrate.head()}


@pytest.mark.parametrize("revision", EARLIER)
def test_an_earlier_database_keeps_everything_and_is_used_on(
    address: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(address, revision)
    assert migrate.check(address).found == revision
    assert migrate.upgrade(address).ok
    check_new_columns(address)
    check_changes_are_told(address, monkeypatch)
    with RecordStore.open(address) as store:
        run = store.runs.get(1)
        assert (run.name, run.state, run.trials, run.tasks[0].best_cost) == ("old", RunState.INTERRUPTED, 1, 0.5)
        [trial] = store.trials.all(1)
        assert (trial.digest, trial.samples, trial.verified) == ("abcd", (0.5,), True)
        found = store.best.look_up("wwww", TARGET, "zen")
        assert found.config is not None
        assert found.config.digest == "abcd"
        frugal = store.best.look_up("wwww", TARGET, "zen", goal=Goal.ENERGY).config
        assert (frugal and frugal.joules) == (0.25 if revision >= "0012" else None)
        # what was measured before is known to runs of today, and the old run can be taken up
        store.runs.take(1, "me")
        assert store.trials.claim(1, 1, ["abcd", "new"]) == {
            "abcd": ClaimAnswer(ClaimState.KNOWN, 0.5),
            "new": ClaimAnswer(ClaimState.CLAIMED),
        }


def check_new_columns(address: str) -> None:
    """Later columns have values for what an earlier database held."""
    engine = connect(parse_url(address))
    with reading(engine) as connection:
        device = connection.execute(select(*DeviceRow.__table__.columns)).one()
        assert (device.cpu_model, device.kernel, device.gpu, device.governor) == ("EPYC", "6.1", "", "")
        assert (device.cpu_features, device.caches) == (["avx2"], [{"level": 1, "size": 32768}])
        assert connection.execute(select(WorkloadRow.family)).scalar_one() == "SSR:float32"
        assert connection.execute(select(TrialRow.suspect)).scalar_one() is False
        assert connection.execute(select(RunRow.stop_at, RunRow.stop_by)).one() == (None, "")
    engine.dispose()


def check_changes_are_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that watches learns of another's change."""
    monkeypatch.setattr(listening, "ALIVE_S", PATIENCE_S)
    with RecordStore.open(address) as store, RecordStore.open(address) as other:
        before = store.best.watch().mark()
        assert store.best.watch().glance() == before
        other.devices.declare_compatible("zen", [])
        eventually(lambda: store.best.watch().glance() not in (None, before))


def test_an_upgrade_can_be_taken_back(address: str) -> None:
    make(address, "0002")
    migrate.upgrade(address)
    engine = connect(parse_url(address))
    with writing(engine) as connection:
        config = scripts()
        config.attributes["connection"] = connection
        command.downgrade(config, "0002")
    engine.dispose()
    assert migrate.check(address).found == "0002"
    assert migrate.upgrade(address).ok
    with RecordStore.open(address) as store:
        assert store.best.look_up("wwww", TARGET, "zen").config is not None
