"""The supervisor and its executors: calls, deaths and starts. Event lists in, command lists out."""


from rpc_server import errors
from rpc_server.box import supervisor_events as events
from rpc_server.machine.crash import ExitReport
from rpc_server.wire.messages import REFERENCE_PHASE, Measured
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.farm.supervisor_script import ANN, BOB, KILLED, SEGFAULT, Box, ask, call

# --- calls -------------------------------------------------------------------------------------------------


def test_calls_pass_through(ann):
    asked = call(7)
    assert ann(asked) == [events.ToExecutor(1, asked.frames)]
    assert ann.state.running() == [1]
    assert ann(events.ExecutorReplied(1, 7, [b"x"])) == [events.ToClient(ANN, [b"x"])]
    assert ann.state.running() == []


def test_without_a_session_there_are_no_calls(box):
    box(call(7))
    assert isinstance(box.error(), errors.SessionClosed)


def test_the_deadline_of_a_call_counts_from_when_it_is_first_in_line(ann):
    ann(call(1, timeout_s=10), call(2, timeout_s=3))
    assert ann.state.next_wakeup() == ann.now + 10
    ann(events.ExecutorReplied(1, 1, []), after=9)
    assert ann.state.next_wakeup() == ann.now + 3
    assert ann(events.TimePassed(), after=3) == [events.Kill(1)]
    ann(events.ExecutorExited(1, KILLED))
    error = ann.error()
    assert isinstance(error, errors.DeadlineExceeded)
    assert "call f ran past its deadline of 3 s" in error.message
    assert ann.got(events.SendNote)[0].note.kind == errors.DeadlineExceeded.kind


def test_a_reply_after_the_kill_is_dropped(ann):
    ann(call(1, timeout_s=1))
    ann(events.TimePassed(), after=1)
    assert ann(events.ExecutorReplied(1, 1, [])) == []


def test_calls_without_a_deadline_take_the_boxs():
    box = Box(call_timeout_s=5)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask(), call(1))
    assert box.state.next_wakeup() == box.now + 5


def test_a_phase_restarts_the_deadline_and_is_named(ann):
    ann(call(1, timeout_s=1, trial=True))
    ann(events.ExecutorPhase(1, "compiling", 30), after=0.5)
    assert ann.state.next_wakeup() == ann.now + 30
    # What an executor says of its deadline is bounded by what the client gave it: here 100 s.
    started = ann.now - 0.5
    ann(events.ExecutorPhase(1, "timing", 1e9), after=10)
    assert ann.state.next_wakeup() == started + 100


def test_a_phase_is_named_and_gives_a_call_no_time(ann):
    ann(call(1, timeout_s=1))
    due = ann.state.next_wakeup()
    ann(events.ExecutorPhase(1, "compiling", 30), after=0.5)
    assert ann.state.next_wakeup() == due
    ann(events.ExecutorExited(1, SEGFAULT))
    assert "call f (compiling)" in ann.error().message


def test_sending_too_much_ends_the_session():
    box = Box(max_pending=3, max_pending_bytes=100)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask())
    box(call(1, nbytes=500))  # one alone may be bigger
    box(events.ExecutorReplied(1, 1, []))
    box(call(2, nbytes=60))
    box(call(3, nbytes=60))
    assert all(isinstance(fail.error, errors.ProtocolError) for fail in box.got(events.Fail))
    assert [fail.request_id for fail in box.got(events.Fail)] == [3, 2]
    assert box.got(events.Kill) == [events.Kill(1)]


def test_an_executor_that_answers_what_was_not_asked_is_killed(ann):
    ann(call(1), call(2))
    assert ann(events.ExecutorReplied(1, 2, [])) == [events.Kill(1)]
    ann(events.ExecutorExited(1, KILLED))
    assert all(isinstance(fail.error, errors.ExecutorCrashed | errors.SessionClosed) for fail in ann.got(events.Fail))
    assert "broke the protocol" in ann.got(events.Fail)[0].error.message
    ann(ask(BOB))
    assert ann(events.ExecutorBrokeProtocol(2, "nonsense")) == [events.Kill(2)]


# --- how executors end -------------------------------------------------------------------------------------


def test_a_crash_ends_the_session_and_says_how(ann):
    ann(call(1), call(2))
    out = ann(events.ExecutorExited(1, SEGFAULT))
    first, second = ann.got(events.Fail)
    assert (first.request_id, second.request_id) == (1, 2)
    assert isinstance(first.error, errors.ExecutorCrashed)
    assert first.error.signal == "SIGSEGV"
    assert first.error.call == "call f"
    assert "Segmentation fault" in first.error.message
    assert events.ForgetSession(1) in out
    assert ann.state.crashes == 1
    ann(call(3))
    assert "SIGSEGV" in ann.error().message


def test_a_trial_that_crashes_is_a_result_and_the_session_goes_on(ann):
    trials = [call(1, trial=True, timeout_s=5), call(2, trial=True, timeout_s=5), call(3)]
    ann(*trials)
    out = ann(events.ExecutorExited(1, SEGFAULT), after=2)
    assert out[:4] == [
        events.AnswerRequest(ANN, 1, Measured(out[0].reply.result)),
        events.Fail(ANN, 3, out[1].error),
        events.BeginSession(2, 1),
        events.ToExecutor(2, trials[1].frames),
    ]
    result = out[0].reply.result
    assert result.failure is FailureKind.CRASH
    assert result.elapsed_s == 2
    assert "arrays are gone" in out[1].error.message
    assert ann.state.next_wakeup() == ann.now + 5
    assert ann(events.ExecutorReplied(2, 2, [b"ok"])) == [events.ToClient(ANN, [b"ok"])]


def test_a_trial_waits_for_a_fresh_executor(box):
    box(ask(restart_on_crash=True), call(1, trial=True, timeout_s=5), call(2, trial=True, timeout_s=5))
    box(events.ExecutorExited(1, SEGFAULT), after=1)
    assert box.got(events.BeginSession) == []
    third = call(3, trial=True)
    assert box(third) == []
    box(events.ExecutorReady(2, 12), after=20)  # which costs the waiting trials none of their time
    assert [c.frames for c in box.got(events.ToExecutor)] == [[b"header", b"f", b"data"], third.frames]
    assert box.state.next_wakeup() == box.now + 5


def test_a_trial_past_its_deadline(ann):
    ann(call(1, trial=True, timeout_s=5))
    assert ann(events.TimePassed(), after=5) == [events.Kill(1)]
    ann(events.ExecutorExited(1, KILLED))
    (answer,) = ann.got(events.AnswerRequest)
    assert answer.reply.result.failure is FailureKind.RUN_TIMEOUT
    assert "deadline of 5 s" in answer.reply.result.text


def test_the_reference_is_blamed_for_its_own_death(ann):
    ann(call(1, trial=True), events.ExecutorPhase(1, REFERENCE_PHASE, 60), events.ExecutorExited(1, SEGFAULT))
    (answer,) = ann.got(events.AnswerRequest)
    assert answer.reply.result.text.startswith("the reference, not the candidate: ")


def test_without_restart_the_session_ends_with_the_trial(box):
    box(ask(restart_on_crash=False), call(1, trial=True), events.ExecutorExited(1, SEGFAULT))
    assert box.got(events.AnswerRequest)[1].reply.result.failure is FailureKind.CRASH
    assert box.got(events.SendNote)


def test_a_death_between_calls(ann):
    ann(call(1), events.ExecutorReplied(1, 1, []))
    ann(events.ExecutorExited(1, SEGFAULT))
    assert "between two calls" in ann.got(events.SendNote)[0].note.reason


def test_a_death_between_trials_costs_nothing(ann):
    ann(call(1, trial=True), events.ExecutorReplied(1, 1, []))
    assert ann(events.ExecutorExited(1, SEGFAULT)) == [events.BeginSession(2, 1), events.Spawn(3)]


def test_memory_over_the_limit():
    box = Box(memory_limit=1 << 30)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask(), call(1))
    assert box(events.ExecutorMemory(1, 1 << 29)) == []
    assert box(events.ExecutorMemory(1, (1 << 30) + 1)) == [events.Kill(1)]
    box(events.ExecutorExited(1, KILLED))
    assert isinstance(box.error(), errors.OutOfMemory)
    assert "limit 1024 MiB" in box.error().message


def test_an_executor_that_cannot_be_killed_is_a_lost_device(ann):
    ann(call(1, trial=True, timeout_s=1))
    ann(events.TimePassed(), after=1)
    ann(events.TimePassed(), after=10)
    assert ann.got(events.AnswerRequest)[0].reply.result.failure is FailureKind.DEVICE_LOST
    assert ann.got(events.SendNote)[0].note.kind == errors.DeviceLost.kind


# --- starting executors ------------------------------------------------------------------------------------


def test_failed_starts_are_retried_ever_more_slowly_and_waiting_clients_are_told():
    box = Box(start_retry_s=1)
    box(events.TimePassed(), ask())
    broken = ExitReport(exit_code=1, stderr="ModuleNotFoundError: numpy")
    assert box(events.ExecutorExited(1, broken)) == []
    assert box.state.next_wakeup() == box.now + 1
    assert box(events.TimePassed(), after=1) == [events.Spawn(2)]
    assert box(events.ExecutorExited(2, broken)) == []
    assert box(events.TimePassed(), after=1) == []
    assert box(events.TimePassed(), after=1) == [events.Spawn(3)]
    box(events.ExecutorExited(3, broken))
    assert isinstance(box.error(), errors.SessionRefused)
    assert "numpy" in box.error().detail["stderr"]


def test_an_executor_that_does_not_start_is_killed():
    box = Box(start_timeout_s=5)
    box(events.TimePassed())
    assert box(events.TimePassed(), after=5) == [events.Kill(1), events.Spawn(2)]
    assert box(events.ExecutorReady(1, 11)) == []
    box(events.ExecutorExited(1, KILLED))
    assert box.state.pool.start_failures == 1


def test_a_warm_executor_that_dies_is_replaced(box):
    assert box(events.ExecutorExited(1, SEGFAULT)) == [events.Spawn(2)]
