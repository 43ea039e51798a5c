"""Functions of a program that build and run, as the engine uses them.

They are called with one candidate at a time, in threads of their own. The engine asks for the next while others are
under way.
"""

from __future__ import annotations

import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from compiler.ir.module import IRModule
from compiler.target.target import Target
from rpc_server.machine.fingerprint import local_fingerprint
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest, MeasureResult
from tuner.build.worker import BuildRequest, CandidateBuild, instantiate
from tuner.devices.fleet import DeviceSession, NamedDevice
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult, RunnerFuture, RunnerInput
from tuner.faces.meta_schedule.record import TensorInfo
from tuner.untuned import device_type


class OwnBuilds:
    """An engine's builder that calls a program's `build`. Its files have to be artifacts."""

    workers = 1
    cores = 1

    def __init__(self, build: Callable[[list[BuilderInput]], Sequence[BuilderResult]]) -> None:
        self._build = build
        self._pool = ThreadPoolExecutor(1, "own-builder")

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        return self._pool.submit(self._built, request)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _built(self, request: BuildRequest) -> CandidateBuild:
        start = time.perf_counter()

        def failed(text: str) -> CandidateBuild:
            return CandidateBuild(None, FailureKind.BUILD, text, time.perf_counter() - start)

        try:
            target = Target(request.target)
            made = instantiate(request.source, target)
            if isinstance(made, Artifact):
                return CandidateBuild(made.to_bytes(), None, "", time.perf_counter() - start)
            (result,) = self._build([BuilderInput(IRModule({request.name: made}), target)])
            if result.artifact_path is None:
                return failed(result.error_msg or "the builder gave no file")
            artifact = Artifact.from_bytes(Path(result.artifact_path).read_bytes())
        except Exception:  # the program's own code must cost one trial and keep its trace
            return failed(traceback.format_exc(limit=-8))
        return CandidateBuild(artifact.to_bytes(), None, "", time.perf_counter() - start)


class OwnFleet:
    """A fleet of one device, on which a program's `run` measures."""

    def __init__(self, name: str, run: Callable[[list[RunnerInput]], Sequence[RunnerFuture]]) -> None:
        self._name, self._run = name, run
        self._lock = threading.Lock()

    def label(self) -> str:
        return self._name

    def target(self) -> str:
        return str(Target("llvm").resolved())

    def count(self) -> int:
        return 1

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        return self

    def close(self) -> None:
        """Do nothing: the runner is the program's."""

    def device(self) -> NamedDevice:
        return NamedDevice(self._name, "", local_fingerprint())

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact]) -> MeasureResult:
        """Measure the candidate, in any way the program likes.
        No result is compared with a reference's."""
        artifact = next(each for each in artifacts if each.digest == request.artifact)
        start = time.perf_counter()
        try:
            with self._lock, tempfile.TemporaryDirectory(prefix="tunefarm-run-") as folder:
                path = Path(folder, "main.tunefarm")
                path.write_bytes(artifact.to_bytes())
                given = RunnerInput(str(path), device_type(artifact), _arguments(artifact))
                (future,) = self._run([given])
                result = future.result()
            if result.run_secs is None:
                return self._failed(result.error_msg or "the runner gave no times", start)
            costs = tuple(float(seconds) for seconds in result.run_secs)
        except Exception:  # the program's own code must cost one trial and keep its trace
            return self._failed(traceback.format_exc(limit=-8), start)
        return MeasureResult(costs, elapsed_s=time.perf_counter() - start)

    def _failed(self, text: str, start: float) -> MeasureResult:
        return MeasureResult(failure=FailureKind.LAUNCH, text=text, elapsed_s=time.perf_counter() - start)


def _arguments(artifact: Artifact) -> tuple[TensorInfo, ...]:
    specs = artifact.entries[0].args
    try:
        return tuple(TensorInfo(spec.dtype, tuple(map(int, spec.shape or ()))) for spec in specs)
    except (TunefarmError, ValueError):  # extents that are known at the call only
        return ()
