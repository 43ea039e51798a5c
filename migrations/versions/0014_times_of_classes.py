"""Measurements of models are found by their device class, newest first.

Revision: 0014, after 0013
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEX = "ix_model_times_class"


def upgrade() -> None:
    op.create_index(INDEX, "model_times", ["device_class_id", "id"])


def downgrade() -> None:
    op.drop_index(INDEX, "model_times")
