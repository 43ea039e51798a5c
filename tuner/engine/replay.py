"""Devices and builds that only answer from records, to compare searches and test engines.

They need neither a device nor a compiler. A `ReplayBuilder` makes a stand-in for each candidate, an artifact that
names it and holds no code. A session of a `ReplayFleet` looks the name up. A candidate without a record fails to
launch, and says so.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from compiler.artifact import Artifact
from rpc_server.machine.fingerprint import Fingerprint, local_fingerprint
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest, MeasureResult
from tuner.build.worker import BuildRequest, CandidateBuild, FuncSource, Source, TraceSource
from tuner.devices.fleet import NamedDevice
from tuner.devices.supplies import local_target
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import TrialPurpose
from tuner.records.paging import all_pages
from tuner.records.store import RecordStore

UNTUNED = "untuned"
"""The name of the untuned function's stand-in."""
_KEY = "candidate"

Answer = Callable[[str], MeasureResult]
"""What measuring the candidate of that digest (or UNTUNED) gave."""


def recorded(store: RecordStore, workload_key: str, target: str | None = None) -> dict[str, MeasureResult]:
    """Return every result that the store has for a workload, by candidate.
    It is its first verified one, else its first failure."""
    found: dict[str, MeasureResult] = {}
    for run in _all_runs(store):
        for trial in store.trials.all(run):
            if trial.workload_key != workload_key or (target is not None and trial.target != target):
                continue
            name = UNTUNED if trial.purpose is TrialPurpose.BASELINE else trial.digest or ""
            known = found.get(name)
            if known is None or (known.failure is not None and trial.failure is None):
                found[name] = MeasureResult(
                    costs=trial.samples,
                    failure=trial.failure,
                    text=trial.failure_text,
                    elapsed_s=trial.measure_s or 0.0,
                    environment=dict(trial.environment),
                )
    return found


def _all_runs(store: RecordStore) -> list[int]:
    return [run.id for run in all_pages(lambda before: store.runs.newest(limit=100, before=before))][::-1]


def answers(results: Mapping[str, MeasureResult]) -> Answer:
    """Look candidates up in `results`; one that is not there fails to launch."""

    def answer(name: str) -> MeasureResult:
        missing = MeasureResult(failure=FailureKind.LAUNCH, text=f"nothing was recorded of candidate {name}")
        return results.get(name, missing)

    return answer


class ReplayBuilder:
    """Stand-ins at once, `workers` of them at a time in the engine's eyes."""

    cores = 0

    def __init__(self, workers: int = 4) -> None:
        self.workers = workers

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        done: Future[CandidateBuild] = Future()
        done.set_result(CandidateBuild(stand_in(_name(request.source), request.target).to_bytes(), None, "", 0.0))
        return done

    def close(self) -> None:
        pass


def _name(source: Source) -> str:
    match source:
        case TraceSource(_, trace):
            return UNTUNED if trace is None else candidate_digest(trace)
        case FuncSource(func):
            return hashlib.sha256(func).hexdigest()[:32]
        case _:
            return hashlib.sha256(repr(source).encode()).hexdigest()[:32]


def stand_in(name: str, target: str) -> Artifact:
    """An artifact that only names a candidate."""
    return Artifact(target=target, cpu_features=(), entries=(), blobs={_KEY: name.encode()}, meta={})


class ReplayFleet:
    """A fleet of `devices` devices, all alike, that give what `answer` says.
    They take `seconds` for a trial (default: none)."""

    def __init__(
        self, answer: Answer, devices: int = 1, seconds: float = 0.0, fingerprint: Fingerprint | None = None
    ) -> None:
        self._answer = answer
        self._devices = devices
        self._seconds = seconds
        self._fingerprint = fingerprint or local_fingerprint()

    def label(self) -> str:
        return "the recorded results"

    def target(self) -> str:
        return local_target()

    def count(self) -> int:
        return self._devices

    def open(self, slot: int, wait_s: float) -> _ReplaySession:
        return _ReplaySession(self._answer, NamedDevice(f"replay/{slot}", "replay", self._fingerprint), self._seconds)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _ReplaySession:
    answer: Answer
    info: NamedDevice
    seconds: float

    def device(self) -> NamedDevice:
        return self.info

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact]) -> MeasureResult:
        artifact = next(a for a in artifacts if a.digest == request.artifact)
        time.sleep(self.seconds)
        result = self.answer(artifact.blobs[_KEY].decode())
        return _lasting(result, self.seconds) if self.seconds else result

    def close(self) -> None:
        pass


def _lasting(result: MeasureResult, seconds: float) -> MeasureResult:
    return MeasureResult(result.costs, result.failure, result.text, seconds, result.environment)
