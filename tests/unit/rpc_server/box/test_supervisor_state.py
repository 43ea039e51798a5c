"""The supervisor's sessions, from their opening to their end: event lists in, command lists out."""


from rpc_server.box.supervisor_events import (
    AnswerRequest,
    BeginSession,
    CancelAsked,
    CloseAsked,
    ConnectionLost,
    ExecutorExited,
    ExecutorOnLane,
    ExecutorReady,
    ExecutorReplied,
    Fail,
    ForgetSession,
    Kill,
    LaneLostAsked,
    LeaseFinished,
    SendNote,
    ShutdownAsked,
    Spawn,
    SupervisorReport,
    TimePassed,
    ToExecutor,
)
from rpc_server.errors import Cancelled, ExecutorCrashed, LeaseRefused, ProtocolError, SessionClosed, SessionRefused
from rpc_server.wire.messages import Done, SessionOpened
from tests.kit.farm.supervisor_script import ANN, BOB, KILLED, SEGFAULT, Box, ask, call

# --- opening -----------------------------------------------------------------------------------------------


def test_a_session_takes_the_warm_executor_and_another_is_started(box):
    assert box(ask()) == [
        BeginSession(1, 1),
        AnswerRequest(ANN, 1, SessionOpened(1, "box", 11)),
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
    assert box(ask())[1] == AnswerRequest(ANN, 1, SessionOpened(1, "box", 11, "somewhere", b"secret", b"secret"))
    box = Box(call_timeout_s=10.0)  # every call has a deadline, so the supervisor has to see it
    box(TimePassed(), ExecutorReady(1, 11, "somewhere", b"secret"))
    assert box(ask())[1] == AnswerRequest(ANN, 1, SessionOpened(1, "box", 11, secret=b"secret"))


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
    assert AnswerRequest(BOB, 5, Done()) in out
    box(ExecutorExited(1, KILLED))
    assert "was cancelled" in box.got(SendNote)[0].note.reason
    assert box.state.crashes == 0


def test_a_session_that_measures_goes_on_after_a_cancel():
    box = with_calls(call(1, trial=True))
    box(ExecutorOnLane(1), CancelAsked(BOB, 5, 1, b"secret"))
    box(call(2, trial=True))  # asked while the executor still dies
    box(ExecutorExited(1, KILLED))
    assert not box.got(SendNote)
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
    assert closed == [Kill(1), AnswerRequest(ANN, 2, Done())]  # not before the old executor is gone
    assert ann(ExecutorExited(1, KILLED)) == [
        ForgetSession(1),
        BeginSession(2, 2),
        AnswerRequest(BOB, 5, SessionOpened(2, "box", 12)),
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
    assert [c.conn for c in box.got(AnswerRequest)] == [ANN, BOB]


def test_one_session_a_connection(ann):
    ann(ask(ANN, 2))
    assert isinstance(ann.error(), ProtocolError)


def test_another_key_is_refused():
    box = Box(key="gpu")
    box(ask(key="cpu"))
    assert isinstance(box.error(), SessionRefused)
    box(ask(BOB, key="gpu"))
    assert box.got(Fail) == []


# --- the end of sessions -----------------------------------------------------------------------------------


def test_a_lost_connection_frees_the_executor(ann):
    ann(call(1))
    assert ann(ConnectionLost(ANN)) == [Kill(1)]
    assert ann(ExecutorExited(1, KILLED)) == [ForgetSession(1)]
    ann(ask(BOB))
    assert ann.got(AnswerRequest)


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
    assert [r.report.event for r in box.got(SupervisorReport)] == ["opened"]
    box(ask(BOB, 2, lease="L2"))
    box(LeaseFinished("L2", "revoked"))
    assert isinstance(box.error(), LeaseRefused)
    box(LeaseFinished("L1", "expired"))
    assert "expired" in box.got(SendNote)[0].note.reason
    assert box.got(SupervisorReport) == []  # the device is not free yet
    box(ExecutorExited(1, KILLED))
    assert [(r.report.lease_id, r.report.event) for r in box.got(SupervisorReport)] == [("L1", "closed")]


def test_a_lease_holder_who_comes_again_replaces_the_old_session():
    box = Box(leases_required=True)
    box(TimePassed(), ExecutorReady(1, 11), ask(ANN, lease="L"), ExecutorReady(2, 12))
    box(ask(BOB, lease="L"))
    assert box.got(SendNote)[0].conn == ANN
    box(ExecutorExited(1, KILLED))
    assert [a.conn for a in box.got(AnswerRequest)] == [BOB]


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
