"""One pass of a suite over devices.

All devices work at once. Each runs the kernels in rounds of random order, then the models. A disturbance that lasts
a while thus touches all kernels a little, not one a lot. Before each kernel the calibration kernel is timed. If a
result is suspect against its series (see `changes`), the kernel is measured again at once. Only a confirmed one is
called a change.
"""

from __future__ import annotations

import queue
import random
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from compiler.target.target import Target
from rpc_server.errors import RPCError
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult
from tuner.bench.changes import WINDOW, ChangeKind, Judgement, confirmed, judge
from tuner.bench.devices import BenchDevice
from tuner.bench.kernels import BuiltKernel, KernelBuilds
from tuner.bench.models import BenchModel, slower_kernels
from tuner.bench.series import CONFIRMED, kernel_series
from tuner.devices.fleet import DeviceSession
from tuner.devices.model_runs import RunsModels
from tuner.devices.supplies import device_target
from tuner.engine.store_rows import device_row, workload_row
from tuner.records.farm.model_farm import BenchResult, NewBenchResult
from tuner.records.store import RecordStore
from tuner.untuned import device_type

_CALIBRATION = EvaluatorOptions(number=1, repeat=3)
_SHARE = 0.5


@dataclass(frozen=True)
class BenchOptions:
    """`rounds` of all kernels, each with `repeat` samples of at least `min_repeat_ms`.
    A device is waited for `wait_s` seconds; `timeout_s` bounds one measurement. `seed` makes the order of the
    kernels."""

    rounds: int = 3
    repeat: int = 3
    min_repeat_ms: int = 20
    wait_s: float = 600.0
    timeout_s: float = 60.0
    seed: int = 0

    @property
    def evaluator(self) -> EvaluatorOptions:
        return EvaluatorOptions(number=1, repeat=self.repeat, min_repeat_ms=self.min_repeat_ms)


# --- what happens --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """The requested device is held: `asked` is the request, `device` what it got.
    `kernels` are to be measured on it in `rounds`."""

    asked: str
    device: str
    kernels: int
    rounds: int


@dataclass(frozen=True)
class BenchMeasured:
    """One kernel was measured once, in a round or again (round 0) because it was suspect."""

    device: str
    kernel: str
    round: int
    cost: float | None


@dataclass(frozen=True)
class Finding:
    """The finding for one kernel on one device, against its series. `real`: a change that was confirmed."""

    device: str
    kernel: str
    how: str
    result: NewBenchResult
    judgement: Judgement | None
    real: bool = False
    why: str = ""


@dataclass(frozen=True)
class Ended:
    """The device was given back; `problem` when it could not be held or was lost."""

    device: str
    findings: tuple[Finding, ...] = ()
    problem: str = ""


Event = Started | BenchMeasured | Ended


def run_bench(
    store: RecordStore, builds: KernelBuilds, devices: Sequence[BenchDevice], options: BenchOptions, run_id: int
) -> Iterator[Event]:
    """Measure everything, record it under `run_id`, and yield events.
    Ending the iteration early stops each device after its present measurement."""
    news: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=_guarded, args=(store, builds, device, options, stop, news.put), name=f"bench-{device.name}"
        )
        for device in devices
    ]
    for thread in threads:
        thread.start()
    try:
        left = len(threads)
        while left:
            event = news.get()
            if isinstance(event, Ended):
                left -= 1
                store.benches.add_results(run_id, [finding.result for finding in event.findings])
            yield event
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _guarded(
    store: RecordStore,
    builds: KernelBuilds,
    device: BenchDevice,
    options: BenchOptions,
    stop: threading.Event,
    tell: Callable[[Event], None],
) -> None:
    findings: list[Finding] = []
    try:
        with device.hold(options.wait_s) as session:
            findings += _Device(store, builds, session, options, stop, tell).run(device)
        tell(Ended(device.name, tuple(findings)))
    except TunefarmError as error:
        tell(Ended(device.name, tuple(findings), f"{error.kind}: {error.message}"))
    except Exception:  # a defect on one device must not cost the others their results
        tell(Ended(device.name, tuple(findings), traceback.format_exc(limit=-6)))


# --- one device ----------------------------------------------------------------------------------------------


@dataclass
class _Series:
    """The measurements of one kernel in this run."""

    built: BuiltKernel
    samples: list[float] = field(default_factory=list)
    calibrations: list[float] = field(default_factory=list)
    environment: Mapping[str, float] = field(default_factory=dict)
    failure: FailureKind | None = None
    text: str = ""


@dataclass
class _ModelSeries:
    """The measurements of one model in this run, and of each of its kernels."""

    model: BenchModel
    samples: list[float] = field(default_factory=list)
    kernels: dict[str, list[float]] = field(default_factory=dict)
    calibrations: list[float] = field(default_factory=list)
    failure: FailureKind | None = None
    text: str = ""


class _Device:
    def __init__(
        self, store: RecordStore, builds: KernelBuilds, session: DeviceSession, options: BenchOptions,
        stop: threading.Event, tell: Callable[[Event], None],
    ) -> None:  # fmt: skip
        self._store = store
        self._builds = builds
        self._session = session
        self._options = options
        self._stop = stop
        self._tell = tell
        self._info = session.device()
        fingerprint = self._info.fingerprint
        self._target = device_target(fingerprint.target, fingerprint.threads)

    def run(self, device: BenchDevice) -> list[Finding]:
        built = self._builds.kernels(self._target, self._info.fingerprint.device_class)
        models = self._builds.models.models(self._target, self._info.fingerprint.device_class)
        self._tell(Started(device.name, self._info.name, len(built) + len(models), self._options.rounds))
        everything = [_Series(kernel) for kernel in built]
        runs = [_ModelSeries(model) for model in models]
        rng = random.Random(f"{self._options.seed} {self._info.name}")
        for number in range(1, self._options.rounds + 1):
            for series in rng.sample(everything, len(everything)):
                if self._stop.is_set():
                    return []
                self._take(series, number)
            for run in runs:
                if self._stop.is_set():
                    return []
                self._take_model(run, number)
        device_id = self._store.devices.upsert(device_row(self._info)).id
        found = [self._finding(series, device_id) for series in everything]
        return found + [finding for run in runs for finding in self._model_findings(run, device_id)]

    def _take(self, series: _Series, number: int) -> float | None:
        """Measure a kernel, unless it failed before; its median, if there is one."""
        built = series.built
        if series.failure is not None:
            return None
        if built.artifact is None:
            series.failure, series.text = FailureKind.BUILD, built.problem
            return None
        series.calibrations += self._calibrate()
        reference = built.reference if number == 1 else None  # the output does not change from round to round
        result = self._measure(built.artifact, self._options.evaluator, reference)
        series.environment = result.environment
        if result.failure is FailureKind.DEVICE_LOST:
            raise RPCError(result.text)
        if result.failure is not None:
            series.failure, series.text, series.samples = result.failure, result.text, []
            return None
        series.samples += result.costs
        cost = median(result.costs)
        self._tell(BenchMeasured(self._info.name, built.task.name, number, cost))
        return cost

    def _calibrate(self) -> list[float]:
        result = self._measure(self._builds.calibration(self._target), _CALIBRATION, None)
        return [min(result.costs)] if result.costs else []

    def _measure(self, artifact: Artifact, options: EvaluatorOptions, reference: Artifact | None) -> MeasureResult:
        request = MeasureRequest(
            artifact.digest,
            options=options,
            timeout_s=self._options.timeout_s,
            reference=None if reference is None else reference.digest,
            device_type=device_type(artifact),
        )
        return self._session.measure(request, [artifact] if reference is None else [artifact, reference])

    # -- what it means

    def _finding(self, series: _Series, device_id: int) -> Finding:
        kernel, how = series.built.task.name, series.built.how
        history = [r for r in self._store.benches.series(kernel, self._info.name, WINDOW) if r.cost is not None]
        judgement, real, why = None, False, ""
        if series.samples:
            judgement = judge([r.cost for r in history if r.cost is not None], median(series.samples))
            if judgement.changed:
                real = self._bears_out(lambda: self._take(series, 0), judgement)
                why = _why(series, judgement, history[-1]) if real else ""
        result = self._result(series, device_id, (CONFIRMED,) if real else ())
        return Finding(self._info.name, kernel, how, result, judgement, real, why)

    def _bears_out(self, take: Callable[[], float | None], suspicion: Judgement) -> bool:
        again: list[float] = []
        while (settled := confirmed(suspicion, again)) is None:
            cost = None if self._stop.is_set() else take()
            if cost is None:
                return False
            again.append(cost)
        return settled

    def _result(self, series: _Series, device_id: int, notes: tuple[str, ...]) -> NewBenchResult:
        task = series.built.task
        workload = self._store.workloads.upsert(workload_row(task))
        return NewBenchResult(
            kernel=task.name,
            target_id=self._store.targets.upsert(self._target).id,
            device_id=device_id,
            workload_id=workload.id,
            config_digest=series.built.digest,
            samples=tuple(series.samples) if series.failure is None else (),
            failure=None if series.failure is None else str(series.failure),
            failure_text=series.text,
            calibration=median(series.calibrations) if series.calibrations else None,
            noise=notes,
            environment=series.environment,
        )

    # -- models

    def _take_model(self, series: _ModelSeries, number: int) -> float | None:
        """Run a model, unless it failed before; the median of its times, if there is one."""
        model = series.model
        if series.failure is not None:
            return None
        if model.path is None or not isinstance(self._session, RunsModels):
            series.failure, series.text = FailureKind.BUILD, model.problem or "this device runs no models"
            return None
        series.calibrations += self._calibrate()
        kind = Target(self._target)
        device_type = "cpu" if kind.is_cpu else kind.kind.name
        try:
            times = self._session.run_model(model.path, device_type, self._options.repeat, self._options.min_repeat_ms)
        except RPCError:
            raise
        except TunefarmError as error:
            series.failure, series.text, series.samples = FailureKind.CRASH, f"{error.kind}: {error.message}", []
            return None
        series.samples += times.samples
        for kernel, seconds in times.kernels.items():
            if seconds > 0:
                series.kernels.setdefault(kernel, []).append(seconds)
        cost = median(times.samples)
        self._tell(BenchMeasured(self._info.name, model.name, number, cost))
        return cost

    def _model_findings(self, series: _ModelSeries, device_id: int) -> list[Finding]:
        """The model's own finding, and those of its kernels.
        The kernels that made it slower are confirmed with it."""
        name = series.model.name
        history = self._costs(name)
        judgement, real, why = None, False, ""
        if series.samples:
            judgement = judge(history, median(series.samples))
            real = judgement.changed and self._bears_out(lambda: self._take_model(series, 0), judgement)
        before = {kernel: self._costs(kernel_series(name, kernel)) for kernel in series.kernels}
        usual = {kernel: median(costs) for kernel, costs in before.items() if costs}
        now = {kernel: median(costs) for kernel, costs in series.kernels.items()}
        blamed = slower_kernels(usual, now) if real and judgement and judgement.kind is ChangeKind.SLOWER else []
        why = "; ".join(f"{kernel}: {1e6 * was:.1f} µs before, {1e6 * took:.1f} µs now" for kernel, was, took in blamed)
        notes = (CONFIRMED,) if real else ()
        own = self._model_result(series, name, series.samples, device_id, notes)
        found = [Finding(self._info.name, name, series.model.how, own, judgement, real, why)]
        for kernel, costs in series.kernels.items():
            guilty = kernel in [each for each, _, _ in blamed]
            row = kernel_series(name, kernel)
            result = self._model_result(series, row, costs, device_id, (CONFIRMED,) if guilty else ())
            verdict = judge(before[kernel], now[kernel])
            found.append(Finding(self._info.name, row, series.model.how, result, verdict, guilty))
        return found

    def _costs(self, name: str) -> list[float]:
        """The times of a series on this device before this run."""
        return [r.cost for r in self._store.benches.series(name, self._info.name, WINDOW) if r.cost is not None]

    def _model_result(
        self, series: _ModelSeries, name: str, samples: Sequence[float], device_id: int, notes: tuple[str, ...]
    ) -> NewBenchResult:
        return NewBenchResult(
            kernel=name,
            target_id=self._store.targets.upsert(self._target).id,
            device_id=device_id,
            config_digest=series.model.digest,
            samples=tuple(samples) if series.failure is None else (),
            failure=None if series.failure is None else str(series.failure),
            failure_text=series.text,
            calibration=median(series.calibrations) if series.calibrations else None,
            noise=notes,
        )


def _why(series: _Series, judgement: Judgement, before: BenchResult) -> str:
    """Return what else is different from the last result of the series."""
    reasons = []
    if before.config_digest != series.built.digest:
        reasons.append("its config is another one")
    if before.calibration and series.calibrations:
        clock = median(series.calibrations) / before.calibration
        if abs(clock - 1) > _SHARE * abs(judgement.ratio - 1) and (clock > 1) == (judgement.ratio > 1):
            reasons.append(f"the device's calibration kernel takes {clock:.2f} times as long too")
    return "; ".join(reasons)
