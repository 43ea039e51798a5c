"""The common part of the faces (autotvm, auto_scheduler): builders and runners in the engine's terms."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from compiler.artifact import Artifact
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest, MeasureResult
from tuner.build.process_builder import ProcessBuilder
from tuner.devices.fleet import DeviceSession, Fleet, NamedDevice, Queueing
from tuner.devices.supplies import LocalFleet, TrackerFleet
from tuner.errors import TuningError
from tuner.records.store import RecordStore
from tuner.search.base import Proposal, Strategy


class MeasureOptionError(TuningError, ValueError, kind="measure_option"):
    """A builder or runner that is asked for something it does not do."""


# -------------------------------------------------------------------------------------- build


class FaceBuilder:
    """Builds candidates in `n_parallel` processes of this machine, each within `timeout` seconds.
    None: one a core."""

    def __init__(self, timeout: float, n_parallel: int | None) -> None:
        if timeout <= 0:
            raise MeasureOptionError(f"a builder's timeout is positive, got {timeout}")
        if n_parallel is not None and n_parallel < 1:
            raise MeasureOptionError(f"n_parallel is at least 1, got {n_parallel}")
        self.timeout = timeout
        self.n_parallel = n_parallel or len(os.sched_getaffinity(0))

    def open(self) -> ProcessBuilder:
        """The workers; to be closed."""
        return ProcessBuilder(self.n_parallel, import_main=False)


# ---------------------------------------------------------------------------------------- run


class FaceRunner(ABC):
    """Measures candidates: `repeat` times, each the mean of `number` calls.
    It is of as many calls as take `min_repeat_ms`, if that is more. There are `cooldown_interval` seconds of rest
    after each, and the caches are emptied before if asked. `timeout` bounds a trial, in seconds."""

    def __init__(
        self, timeout: float, number: int, repeat: int, min_repeat_ms: int, cooldown_interval: float,
        enable_cpu_cache_flush: bool, device: int = 0,
    ) -> None:  # fmt: skip
        if timeout <= 0:
            raise MeasureOptionError(f"a runner's timeout is positive, got {timeout}")
        self.timeout = timeout
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval = cooldown_interval
        self.enable_cpu_cache_flush = enable_cpu_cache_flush
        self.device = device
        self.evaluator()

    def evaluator(self) -> EvaluatorOptions:
        try:
            return EvaluatorOptions(
                number=self.number,
                repeat=self.repeat,
                min_repeat_ms=self.min_repeat_ms,
                cooldown_interval_ms=round(1000 * self.cooldown_interval),
                flush_cache=self.enable_cpu_cache_flush,
            )
        except ValueError as error:
            raise MeasureOptionError(f"{type(self).__name__}: {error}") from None

    def open(self) -> Fleet:
        """The devices, timed as this runner says; to be closed."""
        return SettledFleet(self._devices(), self.evaluator(), self.device, self._most())

    @abstractmethod
    def _devices(self) -> Fleet:
        """The devices as they are, for `open` to settle how they time."""

    def _most(self) -> int | None:
        """How many devices to use at once, None for all there are."""
        return None


class OnThisMachine(FaceRunner):
    """Runs candidates in an isolated process of this machine."""

    def _devices(self) -> Fleet:
        return LocalFleet()


class OnTracker(FaceRunner):
    """Runs candidates on devices that the tracker at `host`:`port` lends for `key`, `n_parallel` at once."""

    key: str
    host: str
    port: int
    priority: int
    n_parallel: int | None
    keys: KeyRing | None = None

    def _devices(self) -> Fleet:
        return TrackerFleet(self.host, self.port, self.key, keys=self.keys, priority=self.priority)

    def _most(self) -> int | None:
        return self.n_parallel


class SettledFleet:
    """The devices of `inner`, at most `most` at once, with every candidate timed by `options`.
    The device is number `device`, whatever the engine would choose. The untuned function is left to the engine,
    because it may be slow."""

    def __init__(self, inner: Fleet, options: EvaluatorOptions, device: int = 0, most: int | None = None) -> None:
        self._inner = inner
        self._options = options
        self._device = device
        self._most = most

    def label(self) -> str:
        return self._inner.label()

    def target(self) -> str:
        return self._inner.target()

    def count(self) -> int:
        count = self._inner.count()
        return count if self._most is None else min(count, self._most)

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        return _SettledSession(self._inner.open(slot, wait_s), self._options, self._device)

    def waiting(self) -> str:
        return self._inner.waiting() if isinstance(self._inner, Queueing) else ""

    def has_turn_coming(self) -> bool:
        return isinstance(self._inner, Queueing) and self._inner.has_turn_coming()

    def leave(self, slot: int) -> None:
        if isinstance(self._inner, Queueing):
            self._inner.leave(slot)

    def close(self) -> None:
        self._inner.close()


class _SettledSession:
    def __init__(self, inner: DeviceSession, options: EvaluatorOptions, device: int) -> None:
        self._inner = inner
        self._options = options
        self._device_id = device

    def device(self) -> NamedDevice:
        return self._inner.device()

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact]) -> MeasureResult:
        options = request.options if request.reference is None else self._options
        settled = msgspec.structs.replace(request, options=options, device_id=self._device_id)
        return self._inner.measure(settled, artifacts)

    def close(self) -> None:
        self._inner.close()


# ------------------------------------------------------------------------------------- search


class RememberedResults:
    """The strategy `inner`, and the results that it was told of without a trial of this run.
    Another run on the same store had them."""

    def __init__(self, inner: Strategy) -> None:
        self._inner = inner
        self._told: dict[str, tuple[Proposal, float | None]] = {}

    def ask(self, count: int) -> Sequence[Proposal]:
        return self._inner.ask(count)

    def tell(self, candidate: Proposal, cost: float | None) -> None:
        self._told[candidate.digest] = candidate, cost
        self._inner.tell(candidate, cost)

    def measured(self, candidate: Proposal) -> None:
        """A trial of `candidate` was this run's."""
        self._told.pop(candidate.digest, None)

    def known(self) -> list[tuple[Proposal, float]]:
        """The candidates whose cost (seconds a call) was known before; those that had failed are left out."""
        return [(candidate, cost) for candidate, cost in self._told.values() if cost is not None]


# -------------------------------------------------------------------------------------- store


@contextmanager
def opened(store: RecordStore | str | Path | None) -> Iterator[RecordStore | None]:
    """The store to record in, opened (and made) here when an address is given, and then closed."""
    if store is None or isinstance(store, RecordStore):
        yield store
        return
    with RecordStore.open(store, create=True) as made:
        yield made
