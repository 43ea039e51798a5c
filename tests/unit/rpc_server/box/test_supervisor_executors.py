"""The supervisor and its executors: calls, deaths and starts. Event lists in, command lists out."""


from rpc_server.box.supervisor_events import (
    AnswerRequest,
    BeginSession,
    ExecutorBrokeProtocol,
    ExecutorExited,
    ExecutorMemory,
    ExecutorPhase,
    ExecutorReady,
    ExecutorReplied,
    Fail,
    ForgetSession,
    Kill,
    SendNote,
    Spawn,
    TimePassed,
    ToClient,
    ToExecutor,
)
from rpc_server.errors import (
    DeadlineExceeded,
    DeviceLost,
    ExecutorCrashed,
    OutOfMemory,
    ProtocolError,
    SessionClosed,
    SessionRefused,
)
from rpc_server.machine.crash import ExitReport
from rpc_server.wire.messages import REFERENCE_PHASE, Measured
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.farm.supervisor_script import ANN, BOB, KILLED, SEGFAULT, Box, ask, call

# --- calls -------------------------------------------------------------------------------------------------


def test_calls_pass_through(ann):
    asked = call(7)
    assert ann(asked) == [ToExecutor(1, asked.frames)]
    assert ann.state.running() == [1]
    assert ann(ExecutorReplied(1, 7, [b"x"])) == [ToClient(ANN, [b"x"])]
    assert ann.state.running() == []


def test_without_a_session_there_are_no_calls(box):
    box(call(7))
    assert isinstance(box.error(), SessionClosed)


def test_the_deadline_of_a_call_counts_from_when_it_is_first_in_line(ann):
    ann(call(1, timeout_s=10), call(2, timeout_s=3))
    assert ann.state.next_wakeup() == ann.now + 10
    ann(ExecutorReplied(1, 1, []), after=9)
    assert ann.state.next_wakeup() == ann.now + 3
    assert ann(TimePassed(), after=3) == [Kill(1)]
    ann(ExecutorExited(1, KILLED))
    error = ann.error()
    assert isinstance(error, DeadlineExceeded)
    assert "call f ran past its deadline of 3 s" in error.message
    assert ann.got(SendNote)[0].note.kind == DeadlineExceeded.kind


def test_a_reply_after_the_kill_is_dropped(ann):
    ann(call(1, timeout_s=1))
    ann(TimePassed(), after=1)
    assert ann(ExecutorReplied(1, 1, [])) == []


def test_calls_without_a_deadline_take_the_boxs():
    box = Box(call_timeout_s=5)
    box(TimePassed(), ExecutorReady(1, 11), ask(), call(1))
    assert box.state.next_wakeup() == box.now + 5


def test_a_phase_restarts_the_deadline_and_is_named(ann):
    ann(call(1, timeout_s=1, trial=True))
    ann(ExecutorPhase(1, "compiling", 30), after=0.5)
    assert ann.state.next_wakeup() == ann.now + 30
    # What an executor says of its deadline is bounded by what the client gave it: here 100 s.
    started = ann.now - 0.5
    ann(ExecutorPhase(1, "timing", 1e9), after=10)
    assert ann.state.next_wakeup() == started + 100


def test_a_phase_is_named_and_gives_a_call_no_time(ann):
    ann(call(1, timeout_s=1))
    due = ann.state.next_wakeup()
    ann(ExecutorPhase(1, "compiling", 30), after=0.5)
    assert ann.state.next_wakeup() == due
    ann(ExecutorExited(1, SEGFAULT))
    assert "call f (compiling)" in ann.error().message


def test_sending_too_much_ends_the_session():
    box = Box(max_pending=3, max_pending_bytes=100)
    box(TimePassed(), ExecutorReady(1, 11), ask())
    box(call(1, nbytes=500))  # one alone may be bigger
    box(ExecutorReplied(1, 1, []))
    box(call(2, nbytes=60))
    box(call(3, nbytes=60))
    assert all(isinstance(fail.error, ProtocolError) for fail in box.got(Fail))
    assert [fail.request_id for fail in box.got(Fail)] == [3, 2]
    assert box.got(Kill) == [Kill(1)]


def test_an_executor_that_answers_what_was_not_asked_is_killed(ann):
    ann(call(1), call(2))
    assert ann(ExecutorReplied(1, 2, [])) == [Kill(1)]
    ann(ExecutorExited(1, KILLED))
    assert all(isinstance(fail.error, ExecutorCrashed | SessionClosed) for fail in ann.got(Fail))
    assert "broke the protocol" in ann.got(Fail)[0].error.message
    ann(ask(BOB))
    assert ann(ExecutorBrokeProtocol(2, "nonsense")) == [Kill(2)]


# --- how executors end -------------------------------------------------------------------------------------


def test_a_crash_ends_the_session_and_says_how(ann):
    ann(call(1), call(2))
    out = ann(ExecutorExited(1, SEGFAULT))
    first, second = ann.got(Fail)
    assert (first.request_id, second.request_id) == (1, 2)
    assert isinstance(first.error, ExecutorCrashed)
    assert first.error.signal == "SIGSEGV"
    assert first.error.call == "call f"
    assert "Segmentation fault" in first.error.message
    assert ForgetSession(1) in out
    assert ann.state.crashes == 1
    ann(call(3))
    assert "SIGSEGV" in ann.error().message


def test_a_trial_that_crashes_is_a_result_and_the_session_goes_on(ann):
    trials = [call(1, trial=True, timeout_s=5), call(2, trial=True, timeout_s=5), call(3)]
    ann(*trials)
    out = ann(ExecutorExited(1, SEGFAULT), after=2)
    assert out[:4] == [
        AnswerRequest(ANN, 1, Measured(out[0].reply.result)),
        Fail(ANN, 3, out[1].error),
        BeginSession(2, 1),
        ToExecutor(2, trials[1].frames),
    ]
    result = out[0].reply.result
    assert result.failure is FailureKind.CRASH
    assert result.elapsed_s == 2
    assert "arrays are gone" in out[1].error.message
    assert ann.state.next_wakeup() == ann.now + 5
    assert ann(ExecutorReplied(2, 2, [b"ok"])) == [ToClient(ANN, [b"ok"])]


def test_a_trial_waits_for_a_fresh_executor(box):
    box(ask(restart_on_crash=True), call(1, trial=True, timeout_s=5), call(2, trial=True, timeout_s=5))
    box(ExecutorExited(1, SEGFAULT), after=1)
    assert box.got(BeginSession) == []
    third = call(3, trial=True)
    assert box(third) == []
    box(ExecutorReady(2, 12), after=20)  # which costs the waiting trials none of their time
    assert [c.frames for c in box.got(ToExecutor)] == [[b"header", b"f", b"data"], third.frames]
    assert box.state.next_wakeup() == box.now + 5


def test_a_trial_past_its_deadline(ann):
    ann(call(1, trial=True, timeout_s=5))
    assert ann(TimePassed(), after=5) == [Kill(1)]
    ann(ExecutorExited(1, KILLED))
    (answer,) = ann.got(AnswerRequest)
    assert answer.reply.result.failure is FailureKind.RUN_TIMEOUT
    assert "deadline of 5 s" in answer.reply.result.text


def test_the_reference_is_blamed_for_its_own_death(ann):
    ann(call(1, trial=True), ExecutorPhase(1, REFERENCE_PHASE, 60), ExecutorExited(1, SEGFAULT))
    (answer,) = ann.got(AnswerRequest)
    assert answer.reply.result.text.startswith("the reference, not the candidate: ")


def test_without_restart_the_session_ends_with_the_trial(box):
    box(ask(restart_on_crash=False), call(1, trial=True), ExecutorExited(1, SEGFAULT))
    assert box.got(AnswerRequest)[1].reply.result.failure is FailureKind.CRASH
    assert box.got(SendNote)


def test_a_death_between_calls(ann):
    ann(call(1), ExecutorReplied(1, 1, []))
    ann(ExecutorExited(1, SEGFAULT))
    assert "between two calls" in ann.got(SendNote)[0].note.reason


def test_a_death_between_trials_costs_nothing(ann):
    ann(call(1, trial=True), ExecutorReplied(1, 1, []))
    assert ann(ExecutorExited(1, SEGFAULT)) == [BeginSession(2, 1), Spawn(3)]


def test_memory_over_the_limit():
    box = Box(memory_limit=1 << 30)
    box(TimePassed(), ExecutorReady(1, 11), ask(), call(1))
    assert box(ExecutorMemory(1, 1 << 29)) == []
    assert box(ExecutorMemory(1, (1 << 30) + 1)) == [Kill(1)]
    box(ExecutorExited(1, KILLED))
    assert isinstance(box.error(), OutOfMemory)
    assert "limit 1024 MiB" in box.error().message


def test_an_executor_that_cannot_be_killed_is_a_lost_device(ann):
    ann(call(1, trial=True, timeout_s=1))
    ann(TimePassed(), after=1)
    ann(TimePassed(), after=10)
    assert ann.got(AnswerRequest)[0].reply.result.failure is FailureKind.DEVICE_LOST
    assert ann.got(SendNote)[0].note.kind == DeviceLost.kind


# --- starting executors ------------------------------------------------------------------------------------


def test_failed_starts_are_retried_ever_more_slowly_and_waiting_clients_are_told():
    box = Box(start_retry_s=1)
    box(TimePassed(), ask())
    broken = ExitReport(exit_code=1, stderr="ModuleNotFoundError: numpy")
    assert box(ExecutorExited(1, broken)) == []
    assert box.state.next_wakeup() == box.now + 1
    assert box(TimePassed(), after=1) == [Spawn(2)]
    assert box(ExecutorExited(2, broken)) == []
    assert box(TimePassed(), after=1) == []
    assert box(TimePassed(), after=1) == [Spawn(3)]
    box(ExecutorExited(3, broken))
    assert isinstance(box.error(), SessionRefused)
    assert "numpy" in box.error().detail["stderr"]


def test_an_executor_that_does_not_start_is_killed():
    box = Box(start_timeout_s=5)
    box(TimePassed())
    assert box(TimePassed(), after=5) == [Kill(1), Spawn(2)]
    assert box(ExecutorReady(1, 11)) == []
    box(ExecutorExited(1, KILLED))
    assert box.state.pool.start_failures == 1


def test_a_warm_executor_that_dies_is_replaced(box):
    assert box(ExecutorExited(1, SEGFAULT)) == [Spawn(2)]
