"""A box's health check: the calibration kernels in a process of their own, and the scores' verdict."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass

from rpc_server.machine.calibration import Calibration, CalibrationSettings
from rpc_server.machine.children import answer_of
from rpc_server.machine.gpus import ProbeSettings, probe
from rpc_server.wire.tracker_records import Scores

logger = logging.getLogger("rpc_server.health")

SLOW = 0.5
"""A box that reaches less than this part of its baseline fails the check."""

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """How a check went.
    `slow`: it computed rightly, but too slowly, which may pass. `baseline` is what the scores were compared with:
    the box's first good ones."""

    passed: bool
    text: str
    slow: bool = False
    scores: Scores | None = None
    baseline: Scores | None = None


def judge(found: Calibration, baseline: Scores | None) -> Health:
    """Whether a box with these results is fit to be lent. Without a baseline, these scores become it."""
    if found.wrong:
        return Health(False, found.wrong, baseline=baseline)
    scores = Scores(found.compute, found.memory)
    first = baseline or scores
    text = f"{scores.compute:.1f} GFLOP/s, {scores.memory:.1f} GB/s"
    shares = {"arithmetic": scores.compute / first.compute, "memory": scores.memory / first.memory}
    slow = [f"{name} at {100 * share:.0f} %" for name, share in shares.items() if share < SLOW]
    if slow:
        return Health(False, f"{text}: {' and '.join(slow)} of its first check", True, scores, first)
    return Health(True, text, scores=scores, baseline=first)


class HealthCheck:
    """Checks a box, one check at a time.
    It keeps the baseline of each slot; the one that the tracker remembers counts when the box has none of its own
    yet. With `gpu`, a UUID, that GPU is checked."""

    def __init__(
        self, user: str = "", cpus: tuple[int, ...] = (), timeout_s: float = _TIMEOUT_S, gpu: str = ""
    ) -> None:
        self._settings = CalibrationSettings(os.getpid(), user, cpus)
        self._gpu = gpu
        self._timeout_s = timeout_s
        self._baselines: dict[int, Scores] = {}
        self._lock = threading.Lock()

    def __call__(self, slot: int, baseline: Scores | None = None) -> Health:
        with self._lock:
            health = judge(self._calibrate(), self._baselines.get(slot, baseline))
            if health.baseline is not None:
                self._baselines[slot] = health.baseline
        logger.info("check of slot %d: %s", slot, health.text)
        return health

    def _calibrate(self) -> Calibration:
        if self._gpu:
            asked = ProbeSettings(os.getpid(), self._gpu, self._settings.user)
            found = probe(asked, self._timeout_s)
            return Calibration(found.compute, found.memory, found.wrong)
        answer = answer_of("rpc_server.machine.calibration", self._settings, Calibration, self._timeout_s)
        return (
            Calibration(wrong=f"the process of the calibration kernels {answer}") if isinstance(answer, str) else answer
        )
