"""How fast a run goes and how long it will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tuner.records.model import Run, RunState, Trial, TrialPurpose

WINDOW = 60
"""Trials that the rate is taken over."""
QUIET_S = 120.0
"""A running run with no news for this long is shown as quiet: its process may be gone."""


@dataclass(frozen=True)
class Progress:
    """How far a run is.
    `rate` is search trials a second, `eta_s` what is left of the budget at that rate (both None when not known).
    `quiet_s` how long ago a running run was last heard of, when that is suspiciously long."""

    rate: float | None
    eta_s: float | None
    elapsed_s: float
    quiet_s: float | None


def progress(run: Run, latest: Sequence[Trial], now: datetime) -> Progress:
    """`latest` are the run's last trials (up to `WINDOW`), in any order."""
    end = run.finished_at or now
    elapsed = max(0.0, (end - run.started_at).total_seconds())
    if run.state is not RunState.RUNNING:
        rate = run.trials / elapsed if elapsed and run.trials else None
        return Progress(rate, None, elapsed, None)
    quiet = (now - run.updated_at).total_seconds()
    rate = _rate(latest, now)
    left = max(0, run.budget - run.trials)
    eta = left / rate if rate else None
    return Progress(rate, eta, elapsed, quiet if quiet > QUIET_S else None)


def _rate(latest: Sequence[Trial], now: datetime) -> float | None:
    """Over the span of the latest search trials, and the silence since."""
    moments = sorted(t.finished_at for t in latest if t.purpose is TrialPurpose.SEARCH)
    if len(moments) < 3:
        return None
    span = (moments[-1] - moments[0]).total_seconds()
    silence = (now - moments[-1]).total_seconds()
    usual = span / (len(moments) - 1)
    span += max(0.0, silence - 2 * usual)
    return (len(moments) - 1) / span if span > 0 else None
