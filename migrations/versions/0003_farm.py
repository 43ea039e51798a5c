"""Fingerprints in columns, device events, tokens, releases, benchmarks and cost models; trials may be suspect, runs be
asked to stop, and workloads have a family.

Revision: 0003, after 0002
"""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)

DEVICE_TEXTS = ("cpu_model", "gpu", "driver", "kernel", "governor")
DEVICE_LISTS = ("cpu_features", "caches")


def _id() -> sa.Column[int]:
    return sa.Column("id", ROW_ID, primary_key=True)


def _ref(name: str, target: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, ROW_ID, sa.ForeignKey(target), nullable=nullable)


def _text(name: str, nullable: bool = False, added: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=nullable, server_default="" if added else None)


def _json(name: str, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(), nullable=nullable)


def _time(name: str, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, TIME, nullable=nullable)


def _int(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _float(name: str, nullable: bool = True) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def upgrade() -> None:
    _devices()
    _existing_tables()
    _tokens()
    _releases()
    _benchmarks()
    _models()
    _fill(op.get_bind())


def _devices() -> None:
    for name in DEVICE_TEXTS:
        op.add_column("devices", _text(name, added=True))
    for name in DEVICE_LISTS:
        op.add_column("devices", sa.Column(name, sa.JSON(), nullable=False, server_default=sa.text("'[]'")))
    op.create_table(
        "device_events",
        _id(),
        _ref("device_id", "devices.id"),
        _text("kind"),
        _time("at"),
        _time("since", nullable=True),
        _text("message"),
        _json("data"),
    )
    op.create_index("ix_device_events_device", "device_events", ["device_id", "at"])


def _existing_tables() -> None:
    op.add_column("workloads", _text("family", added=True))
    op.create_index("ix_workloads_family", "workloads", ["family"])
    op.add_column("runs", _time("stop_at", nullable=True))
    op.add_column("runs", _text("stop_by", added=True))
    op.add_column("trials", sa.Column("suspect", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_trials_device", "trials", ["device_id", "finished_at"])
    where = sa.text("suspect")
    op.create_index("ix_trials_suspect", "trials", ["key_id", "cost"], sqlite_where=where, postgresql_where=where)


def _tokens() -> None:
    op.create_table(
        "tokens",
        _id(),
        sa.Column("name", sa.String(), nullable=False, unique=True),
        sa.Column("digest", sa.String(), nullable=False, unique=True),
        _text("role"),
        _text("created_by"),
        _time("created_at"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("used_at", nullable=True),
    )


def _releases() -> None:
    op.create_table(
        "releases",
        _id(),
        sa.Column("name", sa.String(), nullable=False, unique=True),
        _text("note"),
        _text("digest"),
        _int("entries"),
        _text("created_by"),
        _time("created_at"),
        _text("approved_by"),
        _time("approved_at", nullable=True),
    )
    op.create_table(
        "release_entries",
        _id(),
        _ref("release_id", "releases.id"),
        _text("workload_key"),
        _text("workload_name"),
        _json("spec", nullable=True),
        _float("flops"),
        _text("target"),
        _text("device_class"),
        _text("toolchain"),
        _text("digest"),
        _text("trace"),
        _float("cost", nullable=False),
        _float("low", nullable=False),
        _float("high", nullable=False),
        _int("samples"),
        _text("device"),
        sa.UniqueConstraint("release_id", "workload_key", "target", "device_class", "toolchain"),
    )


def _benchmarks() -> None:
    op.create_table(
        "bench_suites",
        _id(),
        _text("name"),
        _text("digest"),
        _json("spec"),
        _time("created_at"),
        sa.UniqueConstraint("name", "digest"),
    )
    op.create_table(
        "bench_runs",
        _id(),
        _ref("suite_id", "bench_suites.id"),
        _text("state"),
        _text("message"),
        _text("devices"),
        _json("options"),
        _text("command"),
        _text("host"),
        _text("user"),
        _json("toolchain"),
        _time("started_at"),
        _time("finished_at", nullable=True),
        _time("updated_at"),
        _int("results"),
        _int("failed"),
    )
    op.create_index("ix_bench_runs_suite_id", "bench_runs", ["suite_id"])
    op.create_table(
        "bench_results",
        _id(),
        _ref("run_id", "bench_runs.id"),
        _int("sequence"),
        _text("kernel"),
        _ref("workload_id", "workloads.id", nullable=True),
        _ref("target_id", "targets.id"),
        _ref("device_id", "devices.id"),
        _text("config_digest"),
        _text("status"),
        _text("failure_kind", nullable=True),
        _text("failure_text"),
        _json("samples"),
        _float("cost"),
        _float("low"),
        _float("high"),
        _float("calibration"),
        _json("noise"),
        _json("environment"),
        _text("toolchain"),
        _time("measured_at"),
        sa.UniqueConstraint("run_id", "sequence"),
    )
    op.create_index("ix_bench_results_series", "bench_results", ["device_id", "kernel", "measured_at"])
    op.create_index("ix_bench_results_kernel", "bench_results", ["kernel", "measured_at"])


def _models() -> None:
    op.create_table(
        "models",
        _id(),
        _text("target_family"),
        _int("version"),
        _int("feature_version"),
        _text("format"),
        _text("digest"),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _json("trained_on"),
        _json("rank_accuracy"),
        _time("created_at"),
        sa.UniqueConstraint("target_family", "feature_version", "version"),
    )


# --------------------------------------------------------------- what is known already, in columns


def _fill(connection: sa.Connection) -> None:
    devices = sa.table(
        "devices", sa.column("id"), *(sa.column(name, sa.String()) for name in DEVICE_TEXTS),
        *(sa.column(name, sa.JSON()) for name in DEVICE_LISTS), sa.column("fingerprint", sa.JSON()),
    )  # fmt: skip
    for device_id, fingerprint in connection.execute(sa.select(devices.c.id, devices.c.fingerprint)).all():
        connection.execute(sa.update(devices).where(devices.c.id == device_id).values(**_columns(fingerprint)))
    workloads = sa.table("workloads", sa.column("id"), sa.column("function"), sa.column("family"))
    for workload_id, function in connection.execute(sa.select(workloads.c.id, workloads.c.function)).all():
        family = sa.update(workloads).where(workloads.c.id == workload_id).values(family=_family(function))
        connection.execute(family)


def _columns(fingerprint: Any) -> dict[str, Any]:
    """Return what `tuner.records.lookup.keys.fingerprint_columns` gave at this revision."""
    known = json.loads(fingerprint) if isinstance(fingerprint, str) else fingerprint or {}
    lists = {"cpu_features": known.get("features"), "caches": known.get("caches")}
    return {
        **{name: str(known.get(name) or "") for name in DEVICE_TEXTS},
        **{name: value if isinstance(value, list) else [] for name, value in lists.items()},
    }


def _family(function: str) -> str:
    """Return what `tuner.records.lookup.keys.workload_family` gave at this revision."""
    blocks = []
    for body in function.split("T.block(")[1:]:
        axes = re.findall(r'T\.axis\.(?:remap\("([SR]+)"|(spatial|reduce)\()', body)
        blocks.append("".join(letters or kind[0].upper() for letters, kind in axes))
    dtypes = sorted(set(re.findall(r'T\.Buffer\(\([^()]*\), "(\w+)"', function)))
    return f"{','.join(blocks)}:{','.join(dtypes)}" if blocks else ""


def downgrade() -> None:
    for table in (
        "models", "bench_results", "bench_runs", "bench_suites", "release_entries", "releases", "tokens",
        "device_events",
    ):  # fmt: skip
        op.drop_table(table)
    for index in ("ix_trials_suspect", "ix_trials_device"):
        op.drop_index(index, "trials")
    op.drop_column("trials", "suspect")
    op.drop_column("runs", "stop_by")
    op.drop_column("runs", "stop_at")
    op.drop_index("ix_workloads_family", "workloads")
    op.drop_column("workloads", "family")
    for name in (*DEVICE_TEXTS, *DEVICE_LISTS):
        op.drop_column("devices", name)
