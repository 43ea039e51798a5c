"""What the search strategies of `tuner.search.registry` are called. Importing it costs nothing."""

from __future__ import annotations

STRATEGY_NAMES = ("evolutionary", "genetic", "grid", "optuna", "random")
