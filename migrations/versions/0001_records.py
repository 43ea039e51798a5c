"""Workloads, targets, devices, runs, trials and best configs.

Revision: 0001, after nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def _id() -> sa.Column[int]:
    return sa.Column("id", ROW_ID, primary_key=True)


def _ref(name: str, target: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, ROW_ID, sa.ForeignKey(target), nullable=nullable)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=nullable)


def _json(name: str, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(), nullable=nullable)


def _time(name: str, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, TIME, nullable=nullable)


def _int(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _float(name: str, nullable: bool = True) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _bool(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def upgrade() -> None:
    _subjects()
    _runs()
    _trials()
    _best()


def _subjects() -> None:
    op.create_table(
        "workloads",
        _id(),
        sa.Column("key", sa.String(), nullable=False, unique=True),
        _text("name"),
        _json("spec", nullable=True),
        _text("function"),
        _float("flops"),
        _time("created_at"),
    )
    op.create_index("ix_workloads_name", "workloads", ["name"])
    op.create_table(
        "targets",
        _id(),
        sa.Column("text", sa.String(), nullable=False, unique=True),
        _text("kind"),
        _json("features"),
        _time("created_at"),
    )
    op.create_table(
        "device_classes",
        _id(),
        sa.Column("name", sa.String(), nullable=False, unique=True),
        _json("features"),
        _json("serves_from"),
        _time("created_at"),
    )
    op.create_table(
        "devices",
        _id(),
        _text("name"),
        _text("key"),
        _ref("device_class_id", "device_classes.id"),
        _json("fingerprint"),
        _text("fingerprint_digest"),
        _time("first_seen"),
        _time("last_seen"),
        sa.UniqueConstraint("name", "fingerprint_digest"),
    )
    op.create_index("ix_devices_device_class_id", "devices", ["device_class_id"])
    op.create_table(
        "tuning_keys",
        _id(),
        _ref("workload_id", "workloads.id"),
        _ref("target_id", "targets.id"),
        _ref("device_class_id", "device_classes.id"),
        _text("toolchain"),
        sa.UniqueConstraint("workload_id", "target_id", "device_class_id", "toolchain"),
    )
    op.create_index("ix_tuning_keys_target_id", "tuning_keys", ["target_id"])
    op.create_index("ix_tuning_keys_device_class_id", "tuning_keys", ["device_class_id"])


def _runs() -> None:
    op.create_table(
        "runs",
        _id(),
        _text("name"),
        _text("state"),
        _text("message"),
        _json("options"),
        _text("command"),
        _text("host"),
        _text("user"),
        _json("toolchain"),
        _time("started_at"),
        _time("finished_at", nullable=True),
        _time("updated_at"),
        _int("sequence"),
        _int("trials"),
        _int("failed"),
    )
    op.create_table(
        "run_tasks",
        _id(),
        _ref("run_id", "runs.id"),
        _int("position"),
        _ref("workload_id", "workloads.id"),
        _ref("target_id", "targets.id"),
        _int("budget"),
        _int("trials"),
        _int("failed"),
        _float("baseline_cost"),
        _float("best_cost"),
        sa.UniqueConstraint("run_id", "position"),
    )
    op.create_index("ix_run_tasks_workload_id", "run_tasks", ["workload_id"])
    op.create_table(
        "run_failures",
        sa.Column("task_id", ROW_ID, sa.ForeignKey("run_tasks.id"), primary_key=True),
        sa.Column("kind", sa.String(), primary_key=True),
        _int("count"),
        sa.Column("first_trial_id", ROW_ID, nullable=False),
        _text("first_text"),
    )


def _trials() -> None:
    op.create_table(
        "candidates",
        _id(),
        _ref("workload_id", "workloads.id"),
        _ref("target_id", "targets.id"),
        _text("digest"),
        _text("trace"),
        sa.UniqueConstraint("workload_id", "target_id", "digest"),
    )
    op.create_table(
        "trials",
        _id(),
        _ref("run_id", "runs.id"),
        _int("sequence"),
        _ref("task_id", "run_tasks.id"),
        _ref("key_id", "tuning_keys.id", nullable=True),
        _ref("candidate_id", "candidates.id", nullable=True),
        _ref("device_id", "devices.id", nullable=True),
        _text("purpose"),
        _text("status"),
        _text("failure_kind", nullable=True),
        _text("failure_text"),
        _json("samples"),
        _float("cost"),
        _float("mad"),
        _json("noise"),
        _bool("verified"),
        _bool("eligible"),
        _bool("improved"),
        _float("build_s"),
        _float("measure_s"),
        _json("environment"),
        _text("measured_by"),
        _time("started_at"),
        _time("finished_at"),
        sa.UniqueConstraint("run_id", "sequence"),
    )
    op.create_index("ix_trials_task_sequence", "trials", ["task_id", "sequence"])
    op.create_index("ix_trials_candidate", "trials", ["candidate_id"])
    _partial_index("ix_trials_ranking", ["key_id", "cost"], "eligible")
    _partial_index("ix_trials_improved", ["task_id", "sequence", "cost"], "improved")
    _partial_index("ix_trials_failed", ["run_id", "sequence"], "status = 'failed'")


def _partial_index(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "trials", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _best() -> None:
    op.create_table(
        "best_configs",
        _id(),
        sa.Column("key_id", ROW_ID, sa.ForeignKey("tuning_keys.id"), nullable=False, unique=True),
        _ref("trial_id", "trials.id"),
        _ref("candidate_id", "candidates.id"),
        _float("cost", nullable=False),
        _float("low", nullable=False),
        _float("high", nullable=False),
        _json("samples"),
        _time("since"),
        _time("updated_at"),
    )
    op.create_index("ix_best_configs_updated_at", "best_configs", ["updated_at"])


def downgrade() -> None:
    for table in (
        "best_configs",
        "trials",
        "candidates",
        "run_failures",
        "run_tasks",
        "runs",
        "tuning_keys",
        "devices",
        "device_classes",
        "targets",
        "workloads",
    ):
        op.drop_table(table)
