"""Event lists in, command lists out."""

import signal

import pytest

from rpc_server.crash import ExitReport
from rpc_server.errors import (
    Cancelled,
    DeadlineExceeded,
    DeviceLost,
    ExecutorCrashed,
    LeaseRefused,
    OutOfMemory,
    ProtocolError,
    SessionClosed,
    SessionRefused,
)
from rpc_server.executor_pool import PoolConfig
from rpc_server.measure import FailureKind
from rpc_server.messages import REFERENCE_PHASE, Done, Measured, OpenSession, SessionOpened
from rpc_server.supervisor_events import (
    Answer,
    BeginSession,
    CallAsked,
    CancelAsked,
    CloseAsked,
    ConnectionLost,
    ExecutorBrokeProtocol,
    ExecutorExited,
    ExecutorMemory,
    ExecutorOnLane,
    ExecutorPhase,
    ExecutorReady,
    ExecutorReplied,
    Fail,
    ForgetSession,
    Kill,
    LaneLostAsked,
    LeaseOver,
    Log,
    OpenAsked,
    Report,
    ShutdownAsked,
    Spawn,
    Tell,
    TimePassed,
    ToClient,
    ToExecutor,
)
from rpc_server.supervisor_records import SupervisorConfig
from rpc_server.supervisor_state import SupervisorState

ANN, BOB = b"ann", b"bob"
SEGFAULT = ExitReport(signal=signal.SIGSEGV, stderr="Segmentation fault")
KILLED = ExitReport(signal=signal.SIGKILL)


class Box:
    """A state, a clock, and what the last event led to."""

    def __init__(self, **config):
        pool = PoolConfig(
            **{k: config.pop(k) for k in ("warm", "start_timeout_s", "start_retry_s", "refill_delay_s") if k in config}
        )
        self.state = SupervisorState(
            SupervisorConfig(box="box", pool=pool, **config), lambda frames: f"call {frames[1].decode()}"
        )
        self.now = 100.0
        self.out = []

    def __call__(self, *events, after=0.0):
        self.now += after
        self.out = [c for e in events for c in self.state.handle(e, self.now) if not isinstance(c, Log)]
        return self.out

    def got(self, kind):
        return [command for command in self.out if isinstance(command, kind)]

    def error(self):
        (fail,) = self.got(Fail)
        return fail.error


def ask(conn=ANN, request_id=1, lease=None, **options):
    options.setdefault("wait_s", 10)
    return OpenAsked(conn, request_id, OpenSession(client=conn.decode(), **options), lease)


def call(request_id, conn=ANN, name=b"f", **options):
    frames = [b"header", name, b"data"]
    return CallAsked(conn, request_id, frames, options.pop("nbytes", 10), **options)


@pytest.fixture
def box():
    """One warm executor, number 1."""
    box = Box()
    assert box(TimePassed()) == [Spawn(1)]
    assert box(ExecutorReady(1, pid=11)) == []
    return box


@pytest.fixture
def ann(box):
    """Ann's session 1 on executor 1; executor 2 is warm."""
    box(ask(restart_on_crash=True))
    box(ExecutorReady(2, pid=12))
    return box


# --- opening -----------------------------------------------------------------------------------------------


def test_a_session_takes_the_warm_executor_and_another_is_started(box):
    assert box(ask()) == [
        BeginSession(1, 1),
        Answer(ANN, 1, SessionOpened(1, "box", 11)),
        Spawn(2),
    ]


def test_a_spare_is_replaced_when_its_session_is_under_way():
    box = Box(refill_delay_s=0.25)
    box(TimePassed(), ExecutorReady(1, 11))
    assert Spawn(2) not in box(ask())
    assert box.state.next_wakeup() == box.now + 0.25
    assert box(TimePassed(), after=0.25) == [Spawn(2)]


def test_a_session_that_lost_its_executor_does_not_wait_for_the_delay():
    box = Box(refill_delay_s=5.0)
    box(TimePassed(), ExecutorReady(1, 11), ask(restart_on_crash=True), call(1, trial=True))
    assert Spawn(2) in box(ExecutorExited(1, SEGFAULT), after=0.1)


def test_a_client_that_waits_for_an_executor_does_not_wait_for_the_delay():
    box = Box(refill_delay_s=5.0)
    box(TimePassed(), ExecutorReady(1, 11), ask())
    assert Spawn(2) not in box(ask(BOB))  # one session at a time
    assert Spawn(2) in box(ConnectionLost(ANN), ExecutorExited(1, KILLED), after=0.1)
    assert box.got(Spawn) == [Spawn(2)]


# --- the lane ----------------------------------------------------------------------------------------------


def test_the_client_learns_the_lane_of_its_executor():
    box = Box()
    box(TimePassed(), ExecutorReady(1, 11, "somewhere", b"secret"))
    assert box(ask())[1] == Answer(ANN, 1, SessionOpened(1, "box", 11, "somewhere", b"secret", b"secret"))
    box = Box(call_timeout_s=10.0)  # every call has a deadline, so the supervisor has to see it
    box(TimePassed(), ExecutorReady(1, 11, "somewhere", b"secret"))
    assert box(ask())[1] == Answer(ANN, 1, SessionOpened(1, "box", 11, secret=b"secret"))


# --- cancelling --------------------------------------------------------------------------------------------


def with_calls(*calls):
    box = Box()
    box(TimePassed(), ExecutorReady(1, 11, "somewhere", b"secret"), ask(restart_on_crash=True), *calls)
    return box


def test_cancelled_calls_fail_at_once_and_their_executor_is_killed():
    box = with_calls(call(1), call(2, name=b"g"))
    out = box(CancelAsked(BOB, 5, 1, b"secret"))
    assert [(c.request_id, c.error.message) for c in box.got(Fail)] == [
        (1, "call f was cancelled while it ran"),
        (2, "call g was cancelled before it started"),
    ]
    assert all(isinstance(fail.error, Cancelled) for fail in box.got(Fail))
    assert Kill(1) in out
    assert Answer(BOB, 5, Done()) in out
    box(ExecutorExited(1, KILLED))
    assert "was cancelled" in box.got(Tell)[0].note.reason
    assert box.state.crashes == 0


def test_a_session_that_measures_goes_on_after_a_cancel():
    box = with_calls(call(1, trial=True))
    box(ExecutorOnLane(1), CancelAsked(BOB, 5, 1, b"secret"))
    box(call(2, trial=True))  # asked while the executor still dies
    box(ExecutorExited(1, KILLED))
    assert not box.got(Tell)
    assert not box.got(Fail)
    box(ExecutorReady(2, 12))
    assert ToExecutor(2, [b"header", b"f", b"data"]) in box.out


def test_a_wrong_secret_cancels_nothing():
    box = with_calls(call(1))
    for session, secret in ((1, b""), (1, b"guess"), (2, b"secret")):
        out = box(CancelAsked(BOB, 5, session, secret))
        assert [type(command) for command in out] == [Fail]


def test_a_lost_lane_is_explained_when_the_executor_has_ended(ann):
    ann(ExecutorOnLane(1))
    assert ann(LaneLostAsked(ANN, 9, 11, [b"header", b"g"])) == []
    ann(ExecutorExited(1, SEGFAULT))
    assert isinstance(ann.error(), ExecutorCrashed)
    assert "SIGSEGV while running call g" in ann.error().message


def test_a_lost_lane_is_explained_after_the_end(ann):
    ann(ExecutorOnLane(1), ExecutorExited(1, SEGFAULT))
    ann(LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert "SIGSEGV while running call g" in ann.error().message


def test_an_executor_that_left_the_lane_and_lives_is_killed(ann):
    ann(LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert ann(TimePassed(), after=10.0) == [Kill(1)]


def test_a_lane_of_an_executor_before_the_last(ann):
    ann(call(1, trial=True), ExecutorExited(1, SEGFAULT))  # the session goes on with executor 2
    ann(LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert "its arrays are gone" in ann.error().message


def test_what_the_lane_made_is_not_forgotten_silently(ann):
    """A trial, then calls on the lane: the arrays they made die with the executor, so the session does."""
    ann(call(1, trial=True), ExecutorReplied(1, 1, [b"header"]), ExecutorOnLane(1))
    ann(ExecutorExited(1, KILLED))
    assert not ann.state.has_session(ANN)


def test_memory_is_watched_while_the_client_is_on_the_lane(ann):
    assert ann.state.running() == []
    ann(ExecutorOnLane(1))
    assert ann.state.running() == [1]


def test_a_client_waits_for_an_executor_to_become_warm():
    box = Box()
    box(TimePassed())
    assert box(ask()) == []
    assert box(ExecutorReady(1, 11), after=3)[0] == BeginSession(1, 1)


def test_a_client_waits_for_a_session_to_end(ann):
    assert ann(ask(BOB, 5)) == []
    closed = ann(CloseAsked(ANN, 2))
    assert closed == [Kill(1), Answer(ANN, 2, Done())]  # not before the old executor is gone
    assert ann(ExecutorExited(1, KILLED)) == [
        ForgetSession(1),
        BeginSession(2, 2),
        Answer(BOB, 5, SessionOpened(2, "box", 12)),
        Spawn(3),
    ]


def test_waiting_ends_with_the_names_of_those_who_hold_the_box(ann):
    ann(ask(BOB, wait_s=2))
    assert ann.state.next_wakeup() == ann.now + 2
    ann(TimePassed(), after=2)
    assert isinstance(ann.error(), SessionRefused)
    assert "held by ann" in ann.error().message


def test_two_sessions_where_the_box_allows_it():
    box = Box(max_sessions=2, warm=2)
    box(TimePassed(), ExecutorReady(1, 11), ExecutorReady(2, 12), ask(ANN), ask(BOB))
    assert [c.conn for c in box.got(Answer)] == [ANN, BOB]


def test_one_session_a_connection(ann):
    ann(ask(ANN, 2))
    assert isinstance(ann.error(), ProtocolError)


def test_another_key_is_refused():
    box = Box(key="gpu")
    box(ask(key="cpu"))
    assert isinstance(box.error(), SessionRefused)
    box(ask(BOB, key="gpu"))
    assert box.got(Fail) == []


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
    assert ann.got(Tell)[0].note.kind == DeadlineExceeded.kind


def test_a_reply_after_the_kill_is_dropped(ann):
    ann(call(1, timeout_s=1))
    ann(TimePassed(), after=1)
    assert ann(ExecutorReplied(1, 1, [])) == []


def test_calls_without_a_deadline_take_the_boxs():
    box = Box(call_timeout_s=5)
    box(TimePassed(), ExecutorReady(1, 11), ask(), call(1))
    assert box.state.next_wakeup() == box.now + 5


def test_a_phase_restarts_the_deadline_and_is_named(ann):
    ann(call(1, timeout_s=1))
    ann(ExecutorPhase(1, "compiling", 30), after=0.5)
    assert ann.state.next_wakeup() == ann.now + 30
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
        Answer(ANN, 1, Measured(out[0].reply.result)),
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
    (answer,) = ann.got(Answer)
    assert answer.reply.result.failure is FailureKind.RUN_TIMEOUT
    assert "deadline of 5 s" in answer.reply.result.text


def test_the_reference_is_blamed_for_its_own_death(ann):
    ann(call(1, trial=True), ExecutorPhase(1, REFERENCE_PHASE, 60), ExecutorExited(1, SEGFAULT))
    (answer,) = ann.got(Answer)
    assert answer.reply.result.text.startswith("the reference, not the candidate: ")


def test_without_restart_the_session_ends_with_the_trial(box):
    box(ask(restart_on_crash=False), call(1, trial=True), ExecutorExited(1, SEGFAULT))
    assert box.got(Answer)[1].reply.result.failure is FailureKind.CRASH
    assert box.got(Tell)


def test_a_death_between_calls(ann):
    ann(call(1), ExecutorReplied(1, 1, []))
    ann(ExecutorExited(1, SEGFAULT))
    assert "between two calls" in ann.got(Tell)[0].note.reason


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
    assert ann.got(Answer)[0].reply.result.failure is FailureKind.DEVICE_LOST
    assert ann.got(Tell)[0].note.kind == DeviceLost.kind


# --- the end of sessions -----------------------------------------------------------------------------------


def test_a_lost_connection_frees_the_executor(ann):
    ann(call(1))
    assert ann(ConnectionLost(ANN)) == [Kill(1)]
    assert ann(ExecutorExited(1, KILLED)) == [ForgetSession(1)]
    ann(ask(BOB))
    assert ann.got(Answer)


def test_a_waiting_client_that_leaves_is_forgotten(ann):
    ann(ask(BOB))
    ann(ConnectionLost(BOB))
    ann(CloseAsked(ANN, 1), ExecutorExited(1, KILLED))
    assert ann.got(BeginSession) == []


def test_the_sessions_time_limit(box):
    box(ask(session_timeout_s=30))
    assert box.state.next_wakeup() == box.now + 30
    box(call(1), TimePassed(), after=30)
    assert isinstance(box.error(), SessionClosed)
    assert "time limit of 30 s" in box.error().message


def test_leases():
    box = Box(leases_required=True)
    box(TimePassed(), ExecutorReady(1, 11))
    box(ask())
    assert isinstance(box.error(), LeaseRefused)
    box(ask(ANN, lease="L1"))
    assert [r.report.event for r in box.got(Report)] == ["opened"]
    box(ask(BOB, 2, lease="L2"))
    box(LeaseOver("L2", "revoked"))
    assert isinstance(box.error(), LeaseRefused)
    box(LeaseOver("L1", "expired"))
    assert "expired" in box.got(Tell)[0].note.reason
    assert box.got(Report) == []  # the device is not free yet
    box(ExecutorExited(1, KILLED))
    assert [(r.report.lease_id, r.report.event) for r in box.got(Report)] == [("L1", "closed")]


def test_a_lease_holder_who_comes_again_replaces_the_old_session():
    box = Box(leases_required=True)
    box(TimePassed(), ExecutorReady(1, 11), ask(ANN, lease="L"), ExecutorReady(2, 12))
    box(ask(BOB, lease="L"))
    assert box.got(Tell)[0].conn == ANN
    box(ExecutorExited(1, KILLED))
    assert [a.conn for a in box.got(Answer)] == [BOB]


def test_shutdown(ann):
    ann(ask(BOB, 9), call(1))
    ann(ShutdownAsked("bye"))
    assert {type(f.error) for f in ann.got(Fail)} == {SessionClosed, SessionRefused}
    assert {k.executor for k in ann.got(Kill)} == {1, 2}
    ann(ExecutorExited(1, KILLED), ExecutorExited(2, KILLED))
    assert ann.got(Spawn) == []
    assert len(ann.state.pool) == 0
    ann(ask(BOB, 10))
    assert isinstance(ann.error(), SessionRefused)


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
