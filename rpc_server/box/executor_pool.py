"""The pool of executors as the supervisor sees it, without I/O: their states, and which to start.

Every method that decides something returns the commands for it. Times are monotonic seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from rpc_server.box.supervisor_events import Command, Kill, Log, Spawn
from rpc_server.machine.crash import CrashVerdict, ExitReport


class ExecutorState(Enum):
    STARTING = auto()
    WARM = auto()
    BUSY = auto()
    DYING = auto()


_ON_HAND = (ExecutorState.STARTING, ExecutorState.WARM)


@dataclass(slots=True)
class PooledExecutor:
    """`since` is when it was started, or when it was killed once it is DYING.
    `session` stays set while it dies."""

    number: int
    since: float
    state: ExecutorState = ExecutorState.STARTING
    pid: int = 0
    session: int | None = None
    verdict: CrashVerdict = CrashVerdict.NONE
    lane: str = ""
    lane_token: bytes = b""


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """`warm` spare executors stand by.
    A failed start is retried after `start_retry_s`, doubling. A spare that a session took is replaced
    `refill_delay_s` later: starting one takes a core from the session's first calls."""

    warm: int = 1
    refill_delay_s: float = 0.0
    start_timeout_s: float = 60.0
    start_retry_s: float = 1.0


@dataclass(frozen=True, slots=True)
class WantedExecutor:
    """The executors needed: by sessions that lost theirs, and by waiting clients for which there is room.
    Spares serve both."""

    sessions: int = 0
    clients: int = 0


class ExecutorPool:
    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.start_failures = 0
        self._executors: dict[int, PooledExecutor] = {}
        self._next_number = 1
        self._no_start_before = 0.0
        self._no_spare_before = 0.0
        self._stopped = False

    def __iter__(self) -> Iterator[PooledExecutor]:
        return iter(tuple(self._executors.values()))

    def __len__(self) -> int:
        return len(self._executors)

    def get(self, number: int | None) -> PooledExecutor | None:
        return None if number is None else self._executors.get(number)

    def count(self, state: ExecutorState) -> int:
        return sum(executor.state is state for executor in self._executors.values())

    def busy(self, number: int) -> PooledExecutor | None:
        """The executor if it runs a session; None if it is unknown, idle or on its way out."""
        executor = self._executors.get(number)
        return executor if executor is not None and executor.state is ExecutorState.BUSY else None

    def take_warm(self, session: int, now: float) -> PooledExecutor | None:
        for executor in self._executors.values():
            if executor.state is ExecutorState.WARM:
                executor.state, executor.session = ExecutorState.BUSY, session
                self._no_spare_before = now + self.config.refill_delay_s
                return executor
        return None

    def ready(self, number: int, pid: int, lane: str = "", lane_token: bytes = b"") -> None:
        executor = self._executors.get(number)
        if executor is not None and executor.state is ExecutorState.STARTING:
            executor.state, executor.pid = ExecutorState.WARM, pid
            executor.lane, executor.lane_token = lane, lane_token
            self.start_failures = 0

    def kill(self, number: int | None, verdict: CrashVerdict, now: float) -> list[Command]:
        executor = self.get(number)
        if executor is None or executor.state is ExecutorState.DYING:
            return []
        executor.state, executor.verdict, executor.since = ExecutorState.DYING, verdict, now
        return [Kill(executor.number)]

    def exited(self, number: int, report: ExitReport, now: float) -> tuple[PooledExecutor | None, list[Command]]:
        """Forget an executor. One that never became warm holds back the next start."""
        executor = self._executors.pop(number, None)
        if executor is None or executor.pid or executor.verdict is CrashVerdict.CLOSED:
            return executor, []
        self.start_failures += 1
        self._no_start_before = now + self.config.start_retry_s * 2 ** min(self.start_failures - 1, 6)
        text = f"an executor did not start: {report.describe()}\n{report.stderr}"
        return executor, [Log(logging.ERROR, text.rstrip())]

    def stop(self, now: float) -> list[Command]:
        """Kill everything and start nothing any more."""
        self._stopped = True
        return [command for executor in self for command in self.kill(executor.number, CrashVerdict.CLOSED, now)]

    def expire(self, now: float) -> list[Command]:
        limit = self.config.start_timeout_s
        return [
            command
            for executor in self
            if executor.state is ExecutorState.STARTING and now >= executor.since + limit
            for command in self.kill(executor.number, CrashVerdict.START_TIMEOUT, now)
        ]

    def refill(self, wanted: WantedExecutor, now: float) -> list[Command]:
        """Start executors until those `wanted`, and `warm` spare ones, are on hand."""
        if now < self._no_start_before:
            return []
        commands: list[Command] = []
        for _ in range(self._missing(wanted, spares=now >= self._no_spare_before)):
            self._executors[self._next_number] = PooledExecutor(self._next_number, since=now)
            commands.append(Spawn(self._next_number))
            self._next_number += 1
        return commands

    def next_wakeup(self, wanted: WantedExecutor) -> float | None:
        times = [
            executor.since + self.config.start_timeout_s
            for executor in self._executors.values()
            if executor.state is ExecutorState.STARTING
        ]
        if self._stopped:
            return min(times, default=None)
        if self._missing(wanted, spares=False):
            times.append(self._no_start_before)
        elif self._missing(wanted, spares=True):
            times.append(max(self._no_start_before, self._no_spare_before))
        return min(times, default=None)

    def _missing(self, wanted: WantedExecutor, *, spares: bool) -> int:
        if self._stopped:
            return 0
        on_hand = 0
        for executor in self._executors.values():
            on_hand += executor.state in _ON_HAND
        return max(wanted.sessions + max(wanted.clients, self.config.warm if spares else 0) - on_hand, 0)
