"""How an executor ended, and the errors and results to report.

Pure: reports in, errors and results out.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from rpc_server import errors
from rpc_server.wire.trial_messages import FailureKind, MeasureResult

GPU_LOST = 75
"""The exit status of an executor whose GPU context a kernel spoiled."""
_MIB = 1 << 20
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line .*')
_HOME = Path(__file__).resolve().parents[2]
_OWN_FILES = (f"{_HOME / 'rpc_server'}/", f"{_HOME / 'compiler'}/", "<frozen ")
# What libc, C++, numpy and the runtime print when memory runs out.
_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory", "Unable to allocate")
_MEMORY_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT}


class CrashVerdict(Enum):
    """Why the supervisor killed an executor; NONE when it ended by itself."""

    NONE = auto()
    DEADLINE = auto()
    MEMORY = auto()
    DISK = auto()  # its session's files took more than the box allows
    CLOSED = auto()  # its session ended first: nobody waits for an explanation
    CANCELLED = auto()
    PROTOCOL = auto()
    START_TIMEOUT = auto()
    STUCK = auto()  # killed, yet it does not die: it waits for a device inside the kernel


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How a process ended, in the kernel's words. Sizes in bytes; `stderr` is its last lines.

    `peak_memory` is the most it had resident; `last_address_space` the last sample of its virtual size;
    `base_address_space` that size before it ran anything. `kernel_out_of_memory`: the kernel's out-of-memory
    killer was at work on this machine since the executor started.
    """

    exit_code: int | None = None
    signal: int | None = None
    stderr: str = ""
    peak_memory: int = 0
    last_address_space: int = 0
    base_address_space: int = 0
    kernel_out_of_memory: bool = False

    def describe(self) -> str:
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return f"exited with code {self.exit_code}"


@dataclass(frozen=True, slots=True)
class CallUnderWay:
    """`name`: the request, as a person would say it; `phase`: what the executor was doing in it."""

    name: str
    phase: str = ""
    elapsed_s: float = 0.0
    timeout_s: float | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.phase})" if self.phase else self.name


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def explain(
    report: ExitReport,
    verdict: CrashVerdict,
    call: CallUnderWay | None,
    memory_limit: int | None,
    on_lane: bool = False,
) -> errors.RPCError:
    """The error for whoever waited for `call` when its executor ended.
    None: the session was idle, or with `on_lane` its client talked to the executor directly."""
    idle = "while its client talked to it directly" if on_lane else "between two calls"
    doing = f"while running {call}" if call else idle
    detail: dict[str, object] = {
        "exit_code": report.exit_code,
        "signal": None if report.signal is None else signal_name(report.signal),
        "call": str(call) if call else "",
        "stderr": report.stderr,
        "elapsed_s": call.elapsed_s if call else 0.0,
    }
    match verdict:
        case CrashVerdict.DEADLINE:
            limit = "" if call is None or call.timeout_s is None else f" of {call.timeout_s:g} s"
            return errors.DeadlineExceeded(
                f"{call or 'a call'} ran past its deadline{limit}; its executor was killed",
                hint="raise the call's timeout if the kernel is slow rather than stuck",
                detail=detail,
            )
        case CrashVerdict.MEMORY:
            return _out_of_memory(f"the executor was killed {doing}", report, memory_limit, detail)
        case CrashVerdict.DISK:
            return errors.ExecutorCrashed(
                f"the session's folder grew past what the box allows; the executor was killed {doing}",
                hint="write less, or start the server with a higher disk limit",
                detail=detail,
            )
        case CrashVerdict.CLOSED:
            return errors.SessionClosed(f"the session was closed {doing}", detail=detail)
        case CrashVerdict.CANCELLED:
            return errors.Cancelled(f"{call or 'what the session ran'} was cancelled", detail=detail)
        case CrashVerdict.PROTOCOL:
            return errors.ExecutorCrashed(
                f"the executor broke the protocol {doing} and was killed",
                hint="the kernel may have overwritten the executor's memory",
                detail=detail,
            )
        case CrashVerdict.START_TIMEOUT:
            return errors.ExecutorCrashed("the executor did not start in time", detail=detail)
        case CrashVerdict.STUCK:
            return errors.DeviceLost(
                f"the executor was killed {doing} and does not die: the device or its driver hangs",
                hint="check the box; it may need a reset",
                detail=detail,
            )
        case CrashVerdict.NONE:
            text = f"the executor {'was ' if report.signal else ''}{report.describe()} {doing}"
            if ran_out_of_memory(report, memory_limit):
                return _out_of_memory(text, report, memory_limit, detail)
            outside = report.signal in (signal.SIGSEGV, signal.SIGBUS)
            hint = "it read or wrote outside of its arrays: are their declared shapes what the code takes?"
            if outside:
                text += f": {hint}"
            if said := without_own_frames(report.stderr):
                text += f"; its last lines:\n{said}"
            return errors.ExecutorCrashed(text, hint=hint if outside else None, detail=detail)


def without_own_frames(stderr: str) -> str:
    """Return what a process wrote before it died, without tunefarm's own frames.

    They are those in the text of Python's fault handler. Those frames tell the author of a kernel nothing. Frames of
    the author's own Python code stay, with their heading.
    """
    kept: list[str] = []
    heading = ""
    for line in stderr.splitlines():
        if line.startswith(("Current thread 0x", "Thread 0x")):
            heading = line
        elif frame := _FRAME.fullmatch(line):
            if not frame["file"].startswith(_OWN_FILES):
                kept += [heading, line] if heading else [line]
                heading = ""
        elif not line.startswith(("Fatal Python error: ", "Extension modules: ")):
            kept.append(line)
    return "\n".join(kept).strip()


def ran_out_of_memory(report: ExitReport, memory_limit: int | None) -> bool:
    """Whether a death looks like a failed allocation.

    It is when the kernel's out-of-memory killer took it, when the process said so, or when it had come near
    its limit. A kernel that stores through the null pointer of a failed allocation dies of SIGSEGV.
    """
    if report.signal == signal.SIGKILL:
        return report.kernel_out_of_memory
    if any(word in report.stderr for word in _MEMORY_WORDS):
        return True
    if memory_limit is None or report.signal not in _MEMORY_SIGNALS:
        return False
    grown = report.last_address_space - report.base_address_space
    return report.peak_memory >= 0.7 * memory_limit or grown >= 0.7 * memory_limit


def _out_of_memory(text: str, report: ExitReport, limit: int | None, detail: dict[str, object]) -> errors.OutOfMemory:
    peak = f", peak {report.peak_memory // _MIB} MiB" if report.peak_memory else ""
    bound = f" (limit {limit // _MIB} MiB{peak})" if limit else ""
    return errors.OutOfMemory(
        f"out of memory: {text}{bound}",
        hint="use smaller arrays, or start the server with a higher memory limit",
        detail={**detail, "peak_memory": report.peak_memory, "memory_limit": limit},
    )


def failed_trial(error: errors.RPCError, elapsed_s: float, blame: str = "") -> MeasureResult:
    """A trial whose executor ended becomes a failed result with that error's text, after `blame`."""
    match error:
        case errors.DeadlineExceeded():
            kind = FailureKind.RUN_TIMEOUT
        case errors.OutOfMemory():
            kind = FailureKind.OUT_OF_MEMORY
        case errors.DeviceLost():
            kind = FailureKind.DEVICE_LOST
        case _:
            kind = FailureKind.CRASH
    return MeasureResult(failure=kind, text=blame + error.message, elapsed_s=elapsed_s)
