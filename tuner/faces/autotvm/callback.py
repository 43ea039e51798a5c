"""Callbacks of `tune`: called as `callback(tuner, inputs, results)` with results as they arrive."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from tuner.faces.autotvm.log_databases import Database
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.record import check_protocol, encode
from tuner.faces.autotvm.tuner import Callback, Tuner, check_si_prefix

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def log_to_file(file_out: str | Path | IO[str], protocol: str = "json") -> Callback:
    """Append each result to a log (a path or an open file) as a line of JSON.
    It is written at once: a run that is killed loses what was in flight."""
    check_protocol(protocol)

    def write(tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        text = "".join(encode(inp, result, protocol) + "\n" for inp, result in zip(inputs, results))
        if isinstance(file_out, str | Path):
            with open(os.fspath(file_out), "a", encoding="utf-8") as file:
                file.write(text)
        else:
            file_out.write(text)
            file_out.flush()

    return write


def log_to_database(db: Database) -> Callback:
    """Save each result in a database, such as `autotvm.database.DummyDatabase`."""

    def save(tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            db.save(inp, result)

    return save


class Monitor:
    """A callback that notes the speed and the time of every trial.
    Speeds are operations a second, 0 for a trial that failed."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            self.scores.append(inp.task.flop / result.cost if result.error_no == 0 else 0.0)
            self.timestamps.append(result.timestamp)

    def reset(self) -> None:
        """Forget what was noted."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> Floats:
        """Return the speed of each trial, in order."""
        return np.array(self.scores)

    def trial_timestamps(self) -> Floats:
        """Return when each trial was measured, in seconds since 1970."""
        return np.array(self.timestamps)


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Show speeds and the count of trials out of `total`; `si_prefix` is the unit of speeds.

    On a terminal one line is written over. Elsewhere each new best gets a line, and the end another.
    """
    unit = check_si_prefix(si_prefix)
    began = time.monotonic()
    done = failed = 0
    best = 0.0

    def show(tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        nonlocal done, failed, best
        before, current = best, 0.0
        for result in results:
            done += 1
            failed += result.error_no != 0
            current = tuner.task.flop / result.cost
            best = max(best, current)
        line = (
            f"{prefix}{' ' if prefix else ''}{done}/{total}  now {current / unit:.2f}, best {best / unit:.2f} "
            f"{si_prefix}FLOPS  {failed} failed  {time.monotonic() - began:.0f} s"
        )
        if sys.stdout.isatty():
            print(f"\r{line}", end="\n" if done >= total else "", flush=True)
        elif best > before or done == total:
            print(line, flush=True)

    return show
