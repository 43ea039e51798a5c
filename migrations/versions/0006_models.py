"""Models: their versions, kernels, end-to-end times, profiles and files. Cost models get a table of their own name.

Revision: 0006, after 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)

TABLES = ("model_parts", "model_profiles", "model_times", "model_runs", "model_tasks", "model_versions",
          "model_readers", "models")  # fmt: skip


def upgrade() -> None:
    op.rename_table("models", "cost_models")
    op.create_table(
        "models",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.UniqueConstraint("owner", "name"),
    )
    op.create_index("ix_models_name", "models", ["name"])
    op.create_table(
        "model_readers",
        sa.Column("model_id", ROW_ID, sa.ForeignKey("models.id"), primary_key=True),
        sa.Column("reader", sa.String(), primary_key=True),
    )
    op.create_table(
        "model_versions",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("model_id", ROW_ID, sa.ForeignKey("models.id"), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("file_digest", sa.String(), nullable=False),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("sizes", sa.JSON(), nullable=False),
        sa.Column("graph", sa.JSON(), nullable=False),
        sa.Column("file_bytes", sa.BigInteger(), nullable=False),
        sa.Column("kept_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.UniqueConstraint("model_id", "digest"),
    )
    op.create_index("ix_model_versions_model", "model_versions", ["model_id", "id"])
    op.create_table(
        "model_tasks",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("version_id", ROW_ID, sa.ForeignKey("model_versions.id"), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("workload_id", ROW_ID, sa.ForeignKey("workloads.id"), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.UniqueConstraint("version_id", "kind", "workload_id"),
    )
    op.create_index("ix_model_tasks_workload_id", "model_tasks", ["workload_id"])
    op.create_table(
        "model_runs",
        sa.Column("version_id", ROW_ID, sa.ForeignKey("model_versions.id"), primary_key=True),
        sa.Column("run_id", ROW_ID, sa.ForeignKey("runs.id"), primary_key=True),
    )
    op.create_index("ix_model_runs_run_id", "model_runs", ["run_id"])
    op.create_table(
        "model_times",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("model_id", ROW_ID, sa.ForeignKey("models.id"), nullable=False),
        sa.Column("version_id", ROW_ID, sa.ForeignKey("model_versions.id"), nullable=False),
        sa.Column("device_id", ROW_ID, sa.ForeignKey("devices.id"), nullable=False),
        sa.Column("device_class_id", ROW_ID, sa.ForeignKey("device_classes.id"), nullable=False),
        sa.Column("target_id", ROW_ID, sa.ForeignKey("targets.id"), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("measured_at", TIME, nullable=False),
        sa.Column("samples", sa.JSON(), nullable=False),
        sa.Column("release", sa.String(), nullable=False),
        sa.Column("toolchain", sa.String(), nullable=False),
        sa.Column("tuned_share", sa.Double()),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("measured_by", sa.String(), nullable=False),
    )
    op.create_index("ix_model_times_model", "model_times", ["model_id", "id"])
    op.create_index("ix_model_times_model_class", "model_times", ["model_id", "device_class_id", "id"])
    op.create_index("ix_model_times_version_class", "model_times", ["version_id", "device_class_id", "id"])
    op.create_index("ix_model_times_device", "model_times", ["device_id"])
    op.create_table(
        "model_profiles",
        sa.Column("time_id", ROW_ID, sa.ForeignKey("model_times.id"), primary_key=True),
        sa.Column("kernels", sa.JSON(), nullable=False),
    )
    op.create_table(
        "model_parts",
        sa.Column("version_id", ROW_ID, sa.ForeignKey("model_versions.id"), primary_key=True),
        sa.Column("start", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
    op.rename_table("cost_models", "models")
