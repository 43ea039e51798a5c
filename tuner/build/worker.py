"""One build, in its process: a source is turned into an artifact, failures into results.

A build past its time limit is stopped in Python. If it hangs inside LLVM, where no signal handler runs, a watchdog
thread ends its process, and only this build is lost.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from compiler.artifact import Artifact
from compiler.errors import ScheduleError, TunefarmError
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from rpc_server.wire.trial_messages import FailureKind

if TYPE_CHECKING:
    from compiler.schedule.core.effects import Effects

HARD = 3.0
"""Times its limit after which a build that cannot be interrupted is ended with its process."""
_LOOK_S = 0.5
"""How often a build is looked at that takes long."""
_COLLECT = (50_000, 10, 10)
"""When a worker's garbage is collected (see `gc.set_threshold`). A build makes some ten thousand objects that live
until its end: looking through them after every 700, as is usual, takes a fifteenth of its time."""
_AUTOGROUP = Path("/proc/self/autogroup")
_GROUP_NICENESS = 10
"""Of a worker's session beside others. Where a busy session has the core it still gets 9 % of it; with 19 it is 1.5 %,
and builds on a machine that others keep busy would hardly go on."""
_NOWHERE = open(os.devnull, "w")  # noqa: SIM115  (open for the worker's life)


@dataclass(frozen=True)
class TraceSource:
    """A function (see `pack_func`) with a schedule trace (JSON) applied to it; without one, as it is."""

    func: bytes
    trace: str | None


@dataclass(frozen=True)
class FuncSource:
    """A function that is scheduled already."""

    func: bytes


@dataclass(frozen=True)
class MakeSource:
    """A source that calls `make`, which is pickled.
    That is a function of a module, or a `functools.partial` of one."""

    make: Callable[[], PrimFunc | Artifact]


Source: TypeAlias = TraceSource | FuncSource | MakeSource


@dataclass(frozen=True)
class BuildRequest:
    source: Source
    target: str
    name: str = "main"
    timeout_s: float = 10.0


@dataclass(frozen=True)
class CandidateBuild:
    """An artifact (bytes of `Artifact.to_bytes`) or a failure with its text.
    `seconds` is the work in the worker."""

    artifact: bytes | None
    failure: FailureKind | None
    text: str
    seconds: float


def pack_func(func: PrimFunc) -> bytes:
    """The function for build workers; nothing else reads it."""
    return pickle.dumps(func)


def start_worker(memory_bytes: int, niceness: int, environment: Mapping[str, str]) -> None:
    """Prepare a process for builds.
    It has low priority, so that measurements on the same machine keep their cores, a limit on its memory (0: none),
    and the tuner's environment of today."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    _give_way(niceness)
    gc.set_threshold(*_COLLECT)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    import tuner.build.preload  # noqa: F401  (there already, unless the fork server is one of the program's own)


def _give_way(niceness: int) -> None:
    """Lower the priority, also relative to processes of other sessions.
    Where the system groups sessions (Linux's autogroup), a nice value counts within a session only, so an executor
    with its own session would share its cores equally with builds. The worker therefore gets a session, whose group
    has a nice value as well."""
    os.nice(niceness)
    with contextlib.suppress(OSError):
        os.setsid()
    if os.getsid(0) == os.getpid():  # else it would be everybody's session that is lowered
        lowered = min(niceness, _GROUP_NICENESS)
        threading.Thread(target=_lower_session, args=(lowered,), name="lower-session", daemon=True).start()


def _lower_session(niceness: int) -> None:
    """Set the nice value of the session's group.
    The system takes one such change in a tenth of a second from all users together. If it refuses, or has no
    autogroups, nothing changes."""
    while True:
        try:
            _AUTOGROUP.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(0.1 + os.getpid() % 16 / 100)  # not all workers at once
            continue
        except OSError:
            pass  # there is no such group, or it may not be changed
        return


def _end_with_parent() -> None:
    """End the worker when the tuner is gone.
    It holds both ends of the pool's pipes, so it would not notice a killed tuner."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def build(request: BuildRequest) -> CandidateBuild:
    """Build one candidate in this process (its main thread); failures become results."""
    start = time.perf_counter()

    def failed(kind: FailureKind, text: str) -> CandidateBuild:
        return CandidateBuild(None, kind, text, time.perf_counter() - start)

    try:
        with _TimeLimit(request.timeout_s):
            artifact = _compile(request)
    except _BuildTimeout:
        return failed(FailureKind.BUILD_TIMEOUT, f"the build took longer than {request.timeout_s:g} s")
    except ScheduleError as error:
        return failed(FailureKind.INSTANTIATE, str(error))
    except TunefarmError as error:
        return failed(FailureKind.BUILD, f"{error.kind}: {error}")
    except MemoryError:
        return failed(FailureKind.BUILD, "the build ran out of its memory limit")
    except Exception:  # a bug in the compiler, or in a user's own code, must cost one trial and keep its trace
        return failed(FailureKind.BUILD, traceback.format_exc(limit=-8))
    return CandidateBuild(artifact, None, "", time.perf_counter() - start)


def _compile(request: BuildRequest) -> bytes:
    from compiler.driver.build import compile_artifact

    made = instantiate(request.source, Target(request.target))
    if isinstance(made, Artifact):
        return made.to_bytes()
    return compile_artifact(made, Target(request.target), name=request.name, keep=()).to_bytes()


def instantiate(source: Source, target: Target) -> PrimFunc | Artifact:
    """Make the function to build; a source may also be built already. Raises ScheduleError."""
    from compiler.schedule.core.schedule import apply_trace
    from compiler.schedule.core.trace import Trace
    from tuner.untuned import runnable

    match source:
        case TraceSource(func, trace):
            if trace is None:
                return runnable(_unpack(func), target)
            return apply_trace(_unpack(func), Trace.from_json(trace), effects=_effects()).func
        case FuncSource(func):
            return _unpack(func)
        case MakeSource(make):
            return make()


@lru_cache(maxsize=64)
def _unpack(blob: bytes) -> PrimFunc:
    func: PrimFunc = pickle.loads(blob)
    return func


@cache
def _effects() -> Effects:
    """Return the effects of this worker's steps, because the next candidate begins as others did."""
    from compiler.schedule.core.effects import Effects

    return Effects()


class _BuildTimeout(Exception):
    pass


class _TimeLimit:
    """Raise _BuildTimeout in this (main) thread after `seconds`.
    Time spent waiting for a core does not count: builds have the lowest priority, so it says nothing of the
    candidate."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        began, before = time.monotonic(), _in_line()
        waits: dict[str, float] = {}  # also of those that have ended: a C compiler's processes run one after the other

        def look(*_: object) -> None:
            waits.update(_in_line())
            in_line = sum(wait - before.get(who, 0.0) for who, wait in waits.items())
            left = self._seconds + in_line - (time.monotonic() - began)
            if left < 1e-3:
                raise _BuildTimeout
            self._arm(left)

        self._old = signal.signal(signal.SIGALRM, look)
        self._arm(self._seconds)

    def _arm(self, left: float) -> None:
        faulthandler.dump_traceback_later(left + (HARD - 1.0) * self._seconds, exit=True, file=_NOWHERE)
        signal.setitimer(signal.ITIMER_REAL, min(left, _LOOK_S))

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._old)
        faulthandler.cancel_dump_traceback_later()


def _in_line() -> dict[str, float]:
    """How long this thread, and each process below it, was ready and had no core, in seconds."""
    waits: dict[str, float] = {}
    places = ["thread-self"]
    while places:
        place = places.pop()
        with contextlib.suppress(OSError, IndexError):  # a kernel that does not say, a process that has just ended
            waits[place] = int(Path(f"/proc/{place}/schedstat").read_text().split()[1]) / 1e9
            places += [f"{pid}/task/{pid}" for pid in Path(f"/proc/{place}/children").read_text().split()]
    return waits
