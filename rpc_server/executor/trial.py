"""One trial on the box: load, compare with the reference, time.

Failures come back as results, not exceptions.
"""

from __future__ import annotations

import hashlib
import math
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from compiler.artifact import ArgSpec, Artifact, EntryPoint
from compiler.errors import ArtifactError, DeviceError, TargetError, TunefarmError
from compiler.runtime.core import threads
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.code.kernel_function import KernelFunction
from compiler.runtime.core.device import Device, device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import empty
from compiler.runtime.load import load_artifact
from compiler.runtime.measure import conditions, timing
from compiler.runtime.measure.conditions import Reading
from compiler.target.target import Target
from rpc_server.executor.adaptive import SHORT_S, is_doubtful, is_enough, is_hopeless, is_slower, piece
from rpc_server.executor.compare import Inputs, disagreement
from rpc_server.executor.trial_subject import Subject, ending_if_lost, prepacked
from rpc_server.wire.messages import REFERENCE_PHASE, Measured, Need
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult

AnyArray = npt.NDArray[Any]
_LONG = 10  # times `min_repeat_ms`
_TRIES = 3  # at a measurement that is not believed


class TrialFailed(Exception):
    """Ends a trial with a kind and a text."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True)
class _FirstRun:
    """A function that has run once, in so many seconds."""

    ready: Subject
    seconds: float


class Trials:
    """Runs trials in an executor.
    Reference outputs are kept in the session's folder, so a crash of a candidate does not lose them, and are mapped
    read-only. A candidate that writes astray therefore dies instead of spoiling them for the next one."""

    def __init__(
        self, folder: str, fetch: Callable[[str], memoryview | None], phase: Callable[[str, float | None], None]
    ) -> None:
        self._folder = Path(folder)
        self._fetch = fetch
        self._phase = phase
        self._inputs = Inputs()

    def run(self, request: MeasureRequest) -> Measured | Need:
        started, before = time.monotonic(), threads.num_threads()
        try:
            artifact = self._fetch(request.artifact)
            have_reference = request.reference is None or self._kept(request).exists()
            reference = None if have_reference else self._fetch(str(request.reference))
            missing = [] if artifact is not None else [request.artifact]
            if reference is None and not have_reference:
                missing.append(str(request.reference))
            if artifact is None or missing:
                return Need(tuple(missing))
            result = self._measure(request, artifact, reference, started)
        except TrialFailed as failure:
            result = MeasureResult(failure=failure.kind, text=failure.text)
        except MemoryError as error:
            result = MeasureResult(failure=FailureKind.OUT_OF_MEMORY, text=f"out of memory: {error}")
        finally:
            if threads.num_threads() != before:
                threads.set_num_threads(before)
        return Measured(msgspec.structs.replace(result, elapsed_s=time.monotonic() - started))

    def _measure(
        self, request: MeasureRequest, data: memoryview, reference: memoryview | None, started: float
    ) -> MeasureResult:
        place = device(request.device_type, request.device_id)
        limit = None  # the deadline stays as it is
        if reference is not None:
            first = self._run_reference(request, reference, place)
            started, limit = time.monotonic(), request.timeout_s
        if reference is None or request.artifact != request.reference:
            first = self._run_candidate(request, data, place, limit)
            limit = None
        self._phase("timing", limit)
        left = request.timeout_s - (time.monotonic() - started)
        return _time(first.ready, request.options, first.seconds, left)

    def _run_candidate(
        self, request: MeasureRequest, data: memoryview, place: Device, limit: float | None
    ) -> _FirstRun:
        self._phase("load", limit)
        module, function = _load(data, request.entry, place)
        arguments = _arguments(self._inputs, function.entry, request.seed, place)
        function, arguments, cold = _packed_ahead(module, function, arguments, place, request.cold)
        ready = _ready(function, arguments, place, cold)
        self._phase("first run", None)
        first = _call(ready)
        if request.reference is not None:
            self._phase("check", None)
            self._compare(request, function.entry, arguments)
        return first

    # --- the reference ------------------------------------------------------------------------------------

    def _kept(self, request: MeasureRequest) -> Path:
        """The folder with the reference's outputs, one .npy file each."""
        name = f"{request.reference}:{request.entry}:{request.seed}"
        return self._folder / f"reference-{hashlib.sha256(name.encode()).hexdigest()}"

    def _run_reference(self, request: MeasureRequest, data: memoryview, place: Device) -> _FirstRun:
        self._phase(REFERENCE_PHASE, request.reference_timeout_s)
        try:
            _, function = _load(data, request.entry, place)
            arguments = _arguments(self._inputs, function.entry, request.seed, place)
            first = _call(_ready(function, arguments, place))
        except TrialFailed as failure:
            if request.artifact == request.reference:
                raise
            raise TrialFailed(failure.kind, f"the reference, not the candidate: {failure.text}") from None
        folder = self._kept(request).with_suffix(".partial")
        try:
            folder.mkdir(exist_ok=True)
            for index in function.entry.outputs:
                np.save(folder / f"{index}.npy", arguments[index].numpy(), allow_pickle=False)
            folder.rename(self._kept(request))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            text = f"the box cannot keep the reference's outputs: {error.strerror or error}"
            raise TrialFailed(FailureKind.UPLOAD, text) from None
        return first

    def _compare(self, request: MeasureRequest, entry: EntryPoint, arguments: list[Any]) -> None:
        for index in entry.outputs:
            spec = entry.args[index]
            try:
                want = np.load(self._kept(request) / f"{index}.npy", mmap_mode="r", allow_pickle=False)
            except OSError:
                raise TrialFailed(
                    FailureKind.WRONG_RESULT, f"{spec.name} is an output of the candidate, not of the reference"
                ) from None
            got = arguments[index].numpy()
            if got.shape != want.shape or got.dtype != want.dtype:
                text = f"{spec.name} is {got.dtype}{got.shape}, the reference's is {want.dtype}{want.shape}"
                raise TrialFailed(FailureKind.WRONG_RESULT, text)
            text = disagreement(got, want, spec.dtype, request.rtol, request.atol)
            if text:
                raise TrialFailed(FailureKind.WRONG_RESULT, f"output {spec.name}: {text}")


def _load(data: memoryview, entry: str, place: Device) -> tuple[Module, KernelFunction]:
    try:
        artifact = Artifact.from_bytes(data)
        module = load_artifact(artifact)
        _use_cores(artifact)
    except (ArtifactError, TargetError) as error:
        raise TrialFailed(FailureKind.UPLOAD, str(error)) from None
    try:
        function = module.get_function(entry) if entry else module.entry_func
    except TunefarmError as error:
        raise TrialFailed(FailureKind.LAUNCH, str(error)) from None
    if not isinstance(function, KernelFunction):
        raise TrialFailed(FailureKind.LAUNCH, f"{function.name} runs neither on a CPU nor on a GPU")
    if place.device_type != function.device_type:
        text = f"{function.name} is built for {function.device_type}, the trial is on {place}"
        raise TrialFailed(FailureKind.LAUNCH, text)
    return module, function


def _use_cores(artifact: Artifact) -> None:
    """Measure a kernel for fewer cores than this box has on that many cores."""
    cores = Target(artifact.target).num_cores
    if cores and cores < threads.num_threads():  # 0 says nothing
        threads.set_num_threads(cores)


def _packed_ahead(
    module: Module, function: KernelFunction, arguments: list[Any], place: Device, weights: Sequence[int]
) -> tuple[KernelFunction, list[Any], tuple[int, ...]]:
    try:
        return prepacked(module, function, arguments, place, weights)
    except TunefarmError as error:
        raise TrialFailed(FailureKind.LAUNCH, str(error)) from None


def _arguments(inputs: Inputs, entry: EntryPoint, seed: int, place: Device) -> list[Any]:
    try:
        with ending_if_lost(place):
            return [_argument(inputs, spec, seed, index, place) for index, spec in enumerate(entry.args)]
    except DeviceError as error:
        raise TrialFailed(FailureKind.OUT_OF_MEMORY, error.message) from None
    except TunefarmError as error:
        raise TrialFailed(FailureKind.LAUNCH, str(error)) from None


def _argument(inputs: Inputs, spec: ArgSpec, seed: int, index: int, place: Device) -> Any:
    value = inputs.value(spec, seed, index)
    if not isinstance(value, np.ndarray):
        return value
    return empty(value.shape, spec.dtype, place).copyfrom(value)


def _ready(function: KernelFunction, arguments: list[Any], place: Device, cold: Sequence[int] = ()) -> Subject:
    try:
        return Subject(function, arguments, place, cold)
    except TunefarmError as error:
        raise TrialFailed(FailureKind.LAUNCH, str(error)) from None


def _call(ready: Subject) -> _FirstRun:
    before = time.perf_counter()
    try:
        ready.call()
    except KernelError as error:
        kind = FailureKind.OUT_OF_MEMORY if error.detail.get("code") == -1 else FailureKind.LAUNCH
        raise TrialFailed(kind, str(error)) from None
    except TunefarmError as error:
        raise TrialFailed(FailureKind.LAUNCH, str(error)) from None
    return _FirstRun(ready, time.perf_counter() - before)


# --- timing ------------------------------------------------------------------------------------------------


class _TimeUp(Exception):
    """The next sample might not end before the deadline."""


class _TooSlow(Exception):
    """The kernel is so slow that no further sample is worth its time."""


class _Samples:
    """Runs the kernel for `timing.measure` and keeps the times taken.
    A time-out then costs only the missing samples, and a rough time is worth more than a time-out."""

    def __init__(self, ready: Subject, stop_at: float, options: EvaluatorOptions) -> None:
        self._ready = ready
        self._stop_at = stop_at
        self._options = options
        self._whole: tuple[float, ...] = ()
        self._rough = 0.0  # seconds a call, before there is a whole sample
        self._calls = 0  # of the sample under way
        self.number = 0  # calls of the last whole sample

    def warm_up(self) -> None:
        """Time one call; samples of a least length take as many calls as threads need to find a core each.

        Weights may be in the caches. A kernel that is too slow even so needs no samples without them.
        """
        self._timed(1, self._ready.timed_warm)
        if self._options.min_repeat_ms > 0 and 0 < self._rough < SHORT_S:
            self._timed(math.ceil(SHORT_S / self._rough), self._ready.timed_warm)

    def run(self, number: int) -> int:
        if (self._whole or self._rough) and time.monotonic() >= self._stop_at:
            raise _TimeUp
        self._calls += number
        calls = piece(number, self._rough, self._options)
        spent = sum(self._timed(calls, self._ready.timed) for _ in range(number // calls))
        rest = number % calls
        return spent + (self._timed(rest, self._ready.timed) if rest else 0)

    def _timed(self, number: int, timed: Callable[[int], int]) -> int:
        spent = self._undisturbed(number, timed)
        self._rough = spent * 1e-9 / number
        if is_hopeless(spent * 1e-9, number, self._options):
            raise _TooSlow
        return spent

    def _undisturbed(self, number: int, timed: Callable[[int], int]) -> int:
        """Time so many calls, in nanoseconds.
        A time that speaks against the kernel is taken again if the kernel may not be to blame."""
        least = 0
        for _ in range(_TRIES):
            before = _interruptions()
            spent = timed(number)
            least = min(least or spent, spent)
            if not is_doubtful(least * 1e-9, number, _interruptions() > before, self._options):
                break
        return least

    def is_enough(self, whole: Sequence[float]) -> bool:
        """Whether no other sample need follow these."""
        self._whole, self.number, self._calls = tuple(whole), self._calls, 0
        return is_enough(whole, self._options)

    def so_far(self) -> tuple[float, ...]:
        return self._whole or (self._rough,)


def _is_sample(once: float, options: EvaluatorOptions) -> bool:
    """Whether the first call, which took `once` seconds, is all that is asked for.
    Filling pages and caches does not matter beside so long a call."""
    wanted = max(options.repeat, options.max_repeat) == options.number == 1 and not options.flush_cache
    return wanted and 0 < _LONG * options.min_repeat_ms <= once * 1e3


def _time(ready: Subject, options: EvaluatorOptions, once: float, left: float) -> MeasureResult:
    """Time a kernel whose first call took `once` seconds, with `left` seconds to its deadline."""
    samples = _Samples(ready, time.monotonic() + 0.7 * left, options)
    affordable = int(0.4 * left / (once * options.repeat)) if once > 0 else options.number
    number = max(1, min(options.number, affordable))
    before, faults = conditions.take(), _page_faults()
    rejected = False
    if _is_sample(once, options):
        told = {"load_1m": os.getloadavg()[0], "number": 1.0}
        return MeasureResult(costs=(once,), environment=told | ready.environment())
    is_long = 0 < options.min_repeat_ms <= once * 1e3 and not options.flush_cache  # its first call has warmed it up
    try:
        if not is_long:
            samples.warm_up()
        costs = timing.measure(
            run=samples.run,
            options=timing.TimingOptions(
                number=number,
                repeat=max(options.repeat, options.max_repeat),
                min_repeat_ms=0 if options.flush_cache else options.min_repeat_ms,
                limit_zero_time_iterations=options.limit_zero_time_iterations,
                cooldown_interval_ms=options.cooldown_interval_ms,
                repeats_to_cooldown=options.repeats_to_cooldown,
            ),
            prepare=ready.flush if options.flush_cache else (lambda: None),
            observe=None,
            until=samples.is_enough,
            warm_up=False,
            anew=False,
        ).results
        rejected = is_slower(costs, options)
    except _TimeUp:
        costs = samples.so_far()
    except _TooSlow:
        costs, rejected = samples.so_far(), True
    environment = _environment(before, conditions.take())
    environment |= {"page_faults": _page_faults() - faults, "load_1m": os.getloadavg()[0]}
    environment["number"] = float(samples.number or number)
    environment |= ready.environment()
    environment |= _energy(environment, costs)
    if rejected:
        environment["rejected"] = 1.0
    return MeasureResult(costs=costs, environment=environment)


def _environment(before: Reading, after: Reading) -> dict[str, float]:
    """Return what may have disturbed a measurement between two readings, as far as the machine tells."""
    found = {"preempted": float(after.preempted - before.preempted), "timing_s": after.at - before.at}
    if before.stolen_s is not None and after.stolen_s is not None:
        found["stolen_s"] = after.stolen_s - before.stolen_s
    if before.frequency_khz and after.frequency_khz:
        found["clock_change"] = after.frequency_khz / before.frequency_khz - 1
    if before.throttled is not None and after.throttled is not None:
        found["throttled"] = float(after.throttled - before.throttled)
    return found | conditions.drawn(before, after)


def _energy(environment: Mapping[str, float], costs: Sequence[float]) -> dict[str, float]:
    """Joules of one call: the device's power while the kernel was timed, times the seconds of a call."""
    watts = environment.get("gpu_power_w", environment.get("watts"))
    return {"joules": watts * statistics.median(costs)} if watts is not None and costs else {}


def _interruptions() -> int:
    """How often another process took a core that this one was using."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _page_faults() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return float(usage.ru_minflt + usage.ru_majflt)
