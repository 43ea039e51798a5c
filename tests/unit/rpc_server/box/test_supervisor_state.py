"""The supervisor's sessions, from their opening to their end: event lists in, command lists out."""


from rpc_server.box import supervisor_events as events
from rpc_server.errors import Cancelled, ExecutorCrashed, LeaseRefused, ProtocolError, SessionClosed, SessionRefused
from rpc_server.wire.messages import Done, SessionOpened
from tests.kit.farm.supervisor_script import ANN, BOB, KILLED, SEGFAULT, Box, ask, call

# --- opening -----------------------------------------------------------------------------------------------


def test_a_session_takes_the_warm_executor_and_another_is_started(box):
    assert box(ask()) == [
        events.BeginSession(1, 1),
        events.AnswerRequest(ANN, 1, SessionOpened(1, "box", 11)),
        events.Spawn(2),
    ]


def test_a_spare_is_replaced_when_its_session_is_under_way():
    box = Box(refill_delay_s=0.25)
    box(events.TimePassed(), events.ExecutorReady(1, 11))
    assert events.Spawn(2) not in box(ask())
    assert box.state.next_wakeup() == box.now + 0.25
    assert box(events.TimePassed(), after=0.25) == [events.Spawn(2)]


def test_a_session_that_lost_its_executor_does_not_wait_for_the_delay():
    box = Box(refill_delay_s=5.0)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask(restart_on_crash=True), call(1, trial=True))
    assert events.Spawn(2) in box(events.ExecutorExited(1, SEGFAULT), after=0.1)


def test_a_client_that_waits_for_an_executor_does_not_wait_for_the_delay():
    box = Box(refill_delay_s=5.0)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask())
    assert events.Spawn(2) not in box(ask(BOB))  # one session at a time
    assert events.Spawn(2) in box(events.ConnectionLost(ANN), events.ExecutorExited(1, KILLED), after=0.1)
    assert box.got(events.Spawn) == [events.Spawn(2)]


# --- the lane ----------------------------------------------------------------------------------------------


def test_the_client_learns_the_lane_of_its_executor():
    box = Box()
    box(events.TimePassed(), events.ExecutorReady(1, 11, "somewhere", b"secret"))
    assert box(ask())[1] == events.AnswerRequest(ANN, 1, SessionOpened(1, "box", 11, "somewhere", b"secret", b"secret"))
    box = Box(call_timeout_s=10.0)  # every call has a deadline, so the supervisor has to see it
    box(events.TimePassed(), events.ExecutorReady(1, 11, "somewhere", b"secret"))
    assert box(ask())[1] == events.AnswerRequest(ANN, 1, SessionOpened(1, "box", 11, secret=b"secret"))


# --- cancelling --------------------------------------------------------------------------------------------


def with_calls(*calls):
    box = Box()
    box(events.TimePassed(), events.ExecutorReady(1, 11, "somewhere", b"secret"), ask(restart_on_crash=True), *calls)
    return box


def test_cancelled_calls_fail_at_once_and_their_executor_is_killed():
    box = with_calls(call(1), call(2, name=b"g"))
    out = box(events.CancelAsked(BOB, 5, 1, b"secret"))
    assert [(c.request_id, c.error.message) for c in box.got(events.Fail)] == [
        (1, "call f was cancelled while it ran"),
        (2, "call g was cancelled before it started"),
    ]
    assert all(isinstance(fail.error, Cancelled) for fail in box.got(events.Fail))
    assert events.Kill(1) in out
    assert events.AnswerRequest(BOB, 5, Done()) in out
    box(events.ExecutorExited(1, KILLED))
    assert "was cancelled" in box.got(events.SendNote)[0].note.reason
    assert box.state.crashes == 0


def test_a_session_that_measures_goes_on_after_a_cancel():
    box = with_calls(call(1, trial=True))
    box(events.ExecutorOnLane(1), events.CancelAsked(BOB, 5, 1, b"secret"))
    box(call(2, trial=True))  # asked while the executor still dies
    box(events.ExecutorExited(1, KILLED))
    assert not box.got(events.SendNote)
    assert not box.got(events.Fail)
    box(events.ExecutorReady(2, 12))
    assert events.ToExecutor(2, [b"header", b"f", b"data"]) in box.out


def test_a_wrong_secret_cancels_nothing():
    box = with_calls(call(1))
    for session, secret in ((1, b""), (1, b"guess"), (2, b"secret")):
        out = box(events.CancelAsked(BOB, 5, session, secret))
        assert [type(command) for command in out] == [events.Fail]


def test_a_lost_lane_is_explained_when_the_executor_has_ended(ann):
    ann(events.ExecutorOnLane(1))
    assert ann(events.LaneLostAsked(ANN, 9, 11, [b"header", b"g"])) == []
    ann(events.ExecutorExited(1, SEGFAULT))
    assert isinstance(ann.error(), ExecutorCrashed)
    assert "SIGSEGV while running call g" in ann.error().message


def test_a_lost_lane_is_explained_after_the_end(ann):
    ann(events.ExecutorOnLane(1), events.ExecutorExited(1, SEGFAULT))
    ann(events.LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert "SIGSEGV while running call g" in ann.error().message


def test_an_executor_that_left_the_lane_and_lives_is_killed(ann):
    ann(events.LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert ann(events.TimePassed(), after=10.0) == [events.Kill(1)]


def test_a_lane_of_an_executor_before_the_last(ann):
    ann(call(1, trial=True), events.ExecutorExited(1, SEGFAULT))  # the session goes on with executor 2
    ann(events.LaneLostAsked(ANN, 9, 11, [b"header", b"g"]))
    assert "its arrays are gone" in ann.error().message


def test_what_the_lane_made_is_not_forgotten_silently(ann):
    """A trial, then calls on the lane: the arrays they made die with the executor, so the session does."""
    ann(call(1, trial=True), events.ExecutorReplied(1, 1, [b"header"]), events.ExecutorOnLane(1))
    ann(events.ExecutorExited(1, KILLED))
    assert not ann.state.has_session(ANN)


def test_memory_is_watched_while_the_client_is_on_the_lane(ann):
    assert ann.state.running() == []
    ann(events.ExecutorOnLane(1))
    assert ann.state.running() == [1]


def test_a_client_waits_for_an_executor_to_become_warm():
    box = Box()
    box(events.TimePassed())
    assert box(ask()) == []
    assert box(events.ExecutorReady(1, 11), after=3)[0] == events.BeginSession(1, 1)


def test_a_client_waits_for_a_session_to_end(ann):
    assert ann(ask(BOB, 5)) == []
    closed = ann(events.CloseAsked(ANN, 2))
    assert closed == [events.Kill(1), events.AnswerRequest(ANN, 2, Done())]  # not before the old executor is gone
    assert ann(events.ExecutorExited(1, KILLED)) == [
        events.ForgetSession(1),
        events.BeginSession(2, 2),
        events.AnswerRequest(BOB, 5, SessionOpened(2, "box", 12)),
        events.Spawn(3),
    ]


def test_waiting_ends_with_the_names_of_those_who_hold_the_box(ann):
    ann(ask(BOB, wait_s=2))
    assert ann.state.next_wakeup() == ann.now + 2
    ann(events.TimePassed(), after=2)
    assert isinstance(ann.error(), SessionRefused)
    assert "held by ann" in ann.error().message


def test_two_sessions_where_the_box_allows_it():
    box = Box(max_sessions=2, warm=2)
    box(events.TimePassed(), events.ExecutorReady(1, 11), events.ExecutorReady(2, 12), ask(ANN), ask(BOB))
    assert [c.conn for c in box.got(events.AnswerRequest)] == [ANN, BOB]


def test_one_session_a_connection(ann):
    ann(ask(ANN, 2))
    assert isinstance(ann.error(), ProtocolError)


def test_another_key_is_refused():
    box = Box(key="gpu")
    box(ask(key="cpu"))
    assert isinstance(box.error(), SessionRefused)
    box(ask(BOB, key="gpu"))
    assert box.got(events.Fail) == []


# --- the end of sessions -----------------------------------------------------------------------------------


def test_a_lost_connection_frees_the_executor(ann):
    ann(call(1))
    assert ann(events.ConnectionLost(ANN)) == [events.Kill(1)]
    assert ann(events.ExecutorExited(1, KILLED)) == [events.ForgetSession(1)]
    ann(ask(BOB))
    assert ann.got(events.AnswerRequest)


def test_a_waiting_client_that_leaves_is_forgotten(ann):
    ann(ask(BOB))
    ann(events.ConnectionLost(BOB))
    ann(events.CloseAsked(ANN, 1), events.ExecutorExited(1, KILLED))
    assert ann.got(events.BeginSession) == []


def test_the_sessions_time_limit(box):
    box(ask(session_timeout_s=30))
    assert box.state.next_wakeup() == box.now + 30
    box(call(1), events.TimePassed(), after=30)
    assert isinstance(box.error(), SessionClosed)
    assert "time limit of 30 s" in box.error().message


def test_leases():
    box = Box(leases_required=True)
    box(events.TimePassed(), events.ExecutorReady(1, 11))
    box(ask())
    assert isinstance(box.error(), LeaseRefused)
    box(ask(ANN, lease="L1"))
    assert [r.report.event for r in box.got(events.SupervisorReport)] == ["opened"]
    box(ask(BOB, 2, lease="L2"))
    box(events.LeaseFinished("L2", "revoked"))
    assert isinstance(box.error(), LeaseRefused)
    box(events.LeaseFinished("L1", "expired"))
    assert "expired" in box.got(events.SendNote)[0].note.reason
    assert box.got(events.SupervisorReport) == []  # the device is not free yet
    box(events.ExecutorExited(1, KILLED))
    assert [(r.report.lease_id, r.report.event) for r in box.got(events.SupervisorReport)] == [("L1", "closed")]


def test_a_lease_holder_who_comes_again_replaces_the_old_session():
    box = Box(leases_required=True)
    box(events.TimePassed(), events.ExecutorReady(1, 11), ask(ANN, lease="L"), events.ExecutorReady(2, 12))
    box(ask(BOB, lease="L"))
    assert box.got(events.SendNote)[0].conn == ANN
    box(events.ExecutorExited(1, KILLED))
    assert [a.conn for a in box.got(events.AnswerRequest)] == [BOB]


def test_shutdown(ann):
    ann(ask(BOB, 9), call(1))
    ann(events.ShutdownAsked("bye"))
    assert {type(f.error) for f in ann.got(events.Fail)} == {SessionClosed, SessionRefused}
    assert {k.executor for k in ann.got(events.Kill)} == {1, 2}
    ann(events.ExecutorExited(1, KILLED), events.ExecutorExited(2, KILLED))
    assert ann.got(events.Spawn) == []
    assert len(ann.state.pool) == 0
    ann(ask(BOB, 10))
    assert isinstance(ann.error(), SessionRefused)
