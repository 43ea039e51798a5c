"""Trials out in the T4 auto-tuning results format, which Kernel Tuner and the tools around it read.

The format (version 1.0.0 of the open auto-tuning results schema) is one JSON object with a list of results. A result is
a flat configuration of named parameters, times, why a configuration is invalid, and what was measured. Times are in
milliseconds, as Kernel Tuner writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, assert_never

from rpc_server.wire.trial_messages import FailureKind
from tuner.interchange.decisions import parameters_of
from tuner.records.model import Trial, TrialPurpose

SCHEMA_VERSION = "1.0.0"


def invalidity(failure: FailureKind | None) -> str:
    """The format's word for how a trial ended."""
    match failure:
        case None:
            return "correct"
        case FailureKind.INSTANTIATE:
            return "constraints"
        case FailureKind.BUILD:
            return "compile"
        case FailureKind.BUILD_TIMEOUT | FailureKind.RUN_TIMEOUT:
            return "timeout"
        case FailureKind.WRONG_RESULT:
            return "correctness"
        case (
            FailureKind.UPLOAD
            | FailureKind.LAUNCH
            | FailureKind.CRASH
            | FailureKind.OUT_OF_MEMORY
            | FailureKind.DEVICE_LOST
        ):
            return "runtime"
        case _:
            assert_never(failure)


def results(trials: Iterable[Trial]) -> Iterator[dict[str, Any]]:
    """One result a candidate's trial; the untuned function has no configuration and is left out."""
    for trial in trials:
        if trial.trace is not None and trial.purpose is not TrialPurpose.BASELINE:
            yield _result(trial, trial.trace)


def _result(trial: Trial, trace: str) -> dict[str, Any]:
    compiling = _ms(trial.build_s or 0.0)
    measured = [] if trial.cost is None else [{"name": "time", "value": _ms(trial.cost), "unit": "ms"}]
    where = [
        {"name": name, "value": value, "unit": ""}
        for name, value in (
            ("workload", trial.workload_key),
            ("target", trial.target),
            ("device", trial.device),
            ("device_class", trial.device_class),
            ("candidate", trial.digest),
            ("failure", None if trial.failure is None else f"{trial.failure}: {trial.failure_text}"),
        )
        if value
    ]
    return {
        "timestamp": trial.finished_at.isoformat(),
        "configuration": parameters_of(trace),
        "times": {
            "compilation_time": compiling,
            "compilation": compiling,  # the name Kernel Tuner itself writes
            "benchmark": _ms(trial.measure_s or 0.0),
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 0.0,
            "runtimes": [_ms(sample) for sample in trial.samples],
        },
        "invalidity": invalidity(trial.failure),
        "correctness": 1 if trial.verified else 0,
        "measurements": measured + where,
        "objectives": ["time"],
    }


def _ms(seconds: float) -> float:
    return seconds * 1e3


def dump(trials: Iterable[Trial], out: BinaryIO) -> int:
    """Write the file, a result at a time; returns how many."""
    head = {"schema_version": SCHEMA_VERSION, "metadata": {"timeunit": "milliseconds"}}
    out.write(json.dumps(head)[:-1].encode() + b', "results": [')
    count = 0
    for result in results(trials):
        out.write((b",\n" if count else b"\n") + json.dumps(result).encode())
        count += 1
    out.write(b"\n]}\n")
    return count
