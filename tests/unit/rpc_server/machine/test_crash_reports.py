import signal

import pytest

from rpc_server.errors import DeadlineExceeded, DeviceLost, ExecutorCrashed, OutOfMemory, SessionClosed
from rpc_server.machine.crash import CallUnderWay, CrashVerdict, ExitReport, explain, failed_trial
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.places import ROOT

GIB = 1 << 30
CALL = CallUnderWay("call of 'f'", "timing", 1.5, 2.0)


DUMP = f"""zero: no such file
Fatal Python error: Segmentation fault

Current thread 0x00007f0b15de5b80 (most recent call first):
{{}}  File "{ROOT}/compiler/runtime/core/code/cpu_function.py", line 56 in run
  File "{ROOT}/rpc_server/executor/main.py", line 165 in _answer_next
  File "<frozen runpy>", line 88 in _run_code

Extension modules: msgspec._core, numpy._core._multiarray_umath (total: 2)"""


def died(number, **changes):
    return ExitReport(signal=number, **changes)


@pytest.mark.parametrize(
    ("report", "verdict", "kind", "words"),
    [
        (
            died(signal.SIGSEGV),
            CrashVerdict.NONE,
            ExecutorCrashed,
            "killed by SIGSEGV while running call of 'f' (timing)",
        ),
        (died(signal.SIGBUS), CrashVerdict.NONE, ExecutorCrashed, "are their declared shapes what the code takes"),
        (ExitReport(exit_code=3, stderr="oops"), CrashVerdict.NONE, ExecutorCrashed, "exited with code 3"),
        (ExitReport(exit_code=3, stderr="oops"), CrashVerdict.NONE, ExecutorCrashed, "oops"),
        (died(signal.SIGKILL), CrashVerdict.DEADLINE, DeadlineExceeded, "deadline of 2 s"),
        (died(signal.SIGKILL), CrashVerdict.MEMORY, OutOfMemory, "limit 1024 MiB"),
        (died(signal.SIGKILL), CrashVerdict.CLOSED, SessionClosed, "closed"),
        (died(signal.SIGKILL), CrashVerdict.PROTOCOL, ExecutorCrashed, "protocol"),
        (ExitReport(), CrashVerdict.STUCK, DeviceLost, "driver hangs"),
        (died(signal.SIGKILL), CrashVerdict.NONE, ExecutorCrashed, "SIGKILL"),
        (died(signal.SIGKILL, kernel_out_of_memory=True), CrashVerdict.NONE, OutOfMemory, "out of memory"),
        (died(signal.SIGABRT, stderr="std::bad_alloc"), CrashVerdict.NONE, OutOfMemory, "SIGABRT"),
        (died(signal.SIGSEGV, peak_memory=GIB * 3 // 4), CrashVerdict.NONE, OutOfMemory, "peak 768 MiB"),
        (died(signal.SIGSEGV, peak_memory=GIB // 2), CrashVerdict.NONE, ExecutorCrashed, "SIGSEGV"),
        (
            died(signal.SIGSEGV, base_address_space=GIB, last_address_space=2 * GIB),
            CrashVerdict.NONE,
            OutOfMemory,
            "SIGSEGV",
        ),
        (died(signal.SIGILL, peak_memory=GIB), CrashVerdict.NONE, ExecutorCrashed, "SIGILL"),
        (died(99), CrashVerdict.NONE, ExecutorCrashed, "signal 99"),
    ],
)
def test_what_is_said(report, verdict, kind, words):
    error = explain(report, verdict, CALL, GIB)
    assert type(error) is kind
    assert words in error.message
    assert error.detail["call"] == "call of 'f' (timing)"


def test_details_for_machines():
    error = explain(died(signal.SIGBUS, stderr="x"), CrashVerdict.NONE, None, None)
    assert isinstance(error, ExecutorCrashed)
    assert (error.signal, error.exit_code, error.stderr, error.call) == ("SIGBUS", None, "x", "")
    assert "between two calls" in error.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DeadlineExceeded("late"), FailureKind.RUN_TIMEOUT),
        (OutOfMemory("big"), FailureKind.OUT_OF_MEMORY),
        (ExecutorCrashed("bang"), FailureKind.CRASH),
        (DeviceLost("gone"), FailureKind.DEVICE_LOST),
    ],
)
def test_trials_fail_with_a_kind(error, kind):
    result = failed_trial(error, 2.5, "look: ")
    assert (result.failure, result.text, result.elapsed_s) == (kind, f"look: {error.message}", 2.5)


def test_a_fault_does_not_name_frames_of_tunefarm():
    error = explain(died(signal.SIGSEGV, stderr=DUMP.format("")), CrashVerdict.NONE, CALL, GIB)
    assert error.message.endswith("what the code takes?; its last lines:\nzero: no such file")
    assert "cpu_function.py" in error.detail["stderr"]


def test_a_fault_names_frames_of_the_python_code_that_was_run():
    error = explain(
        died(signal.SIGSEGV, stderr=DUMP.format('  File "/home/ann/plain.py", line 3 in plain\n')),
        CrashVerdict.NONE,
        CALL,
        GIB,
    )
    assert error.message.endswith('(most recent call first):\n  File "/home/ann/plain.py", line 3 in plain')
