"""Errors of a cost model. The search reports them and goes on without one."""

from __future__ import annotations

from typing import ClassVar

from tuner.errors import TuningError


class ModelError(TuningError):
    """A cost model that cannot be made, read or used."""

    kind: ClassVar[str] = "model"


class FeatureError(ModelError):
    """A sketch whose candidates the features do not describe."""

    kind: ClassVar[str] = "features"
