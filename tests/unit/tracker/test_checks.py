"""Health checks as the tracker sees them: when they run, what they decide, and what is shown of them."""

from __future__ import annotations

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import Scores
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.state import Tick

GOOD = Scores(16.0, 20.0)
POOR = Scores(4.0, 20.0)


def patient() -> Script:
    script = Script(late_s=1e6, box_timeout_s=1e6)
    script(hello())
    return script


def slow() -> tm.CheckResult:
    return tm.CheckResult("box-a", 0, False, "4 GFLOP/s", slow=True, scores=POOR, baseline=GOOD)


def test_a_check_is_shown_with_its_scores_and_age() -> None:
    script = patient()
    assert script.device("a/0").check is None
    script(tm.CheckResult("box-a", 0, True, "16 GFLOP/s", scores=GOOD, baseline=GOOD))
    script.now += 7.0
    check = script.device("a/0").check
    assert (check.passed, check.text, check.age_s, check.failures) == (True, "16 GFLOP/s", 7.0, 0)
    assert (check.scores, check.baseline) == (GOOD, GOOD)
    assert script.kinds()[-1] == "checked"


def test_a_box_is_told_the_baseline_that_the_tracker_remembers() -> None:
    script = patient()
    script(tm.CheckResult("box-a", 0, True, scores=GOOD, baseline=GOOD))
    assert ("box-a", tm.CheckDevice(0, GOOD)) in script(tm.Admin("check", "a/0"))


def test_a_slow_device_is_tried_again_and_quarantined_after_three_failures_in_a_row() -> None:
    script = patient()
    script(tm.SuspectDevice("box-a", 0, "a kernel hung"))
    for failures in (1, 2):
        script(slow())
        assert script.state_of("a/0") == "suspect"
        assert script.device("a/0").check.failures == failures
    script(slow())
    assert script.state_of("a/0") == "quarantined"
    script(slow())
    assert script.state_of("a/0") == "quarantined"
    script(tm.CheckResult("box-a", 0, True, scores=GOOD, baseline=GOOD))
    assert script.state_of("a/0") == "ready"
    assert script.device("a/0").check.failures == 0


def test_a_wrong_result_quarantines_at_once() -> None:
    script = patient()
    script(tm.CheckResult("box-a", 0, False, "core 3 computed something wrong"))
    assert script.state_of("a/0") == "quarantined"
    assert script.device("a/0").reason == "it failed a check: core 3 computed something wrong"


def test_a_device_is_not_lent_while_it_is_checked() -> None:
    script = patient()
    assert ("box-a", tm.CheckDevice(0)) in script(tm.Admin("check", "a/0"))
    assert not any(isinstance(message, tm.GrantLease) for _, message in script(ask()))
    sent = script(tm.CheckResult("box-a", 0, True))
    assert any(isinstance(message, tm.GrantLease) for _, message in sent)


def test_a_leased_device_is_checked_when_its_lease_is_over() -> None:
    script = patient()
    grant = lent(script)
    assert ("box-a", tm.CheckDevice(0)) not in script(tm.Admin("check", "a/0"))
    script(tm.ReleaseLease("c1", grant.lease, grant.token))
    script(tm.LeaseOver("box-a", grant.lease))
    assert script(Tick(), 1.1) == [("box-a", tm.CheckDevice(0))]


def test_an_old_result_told_again_is_shown_and_changes_nothing() -> None:
    script = patient()
    script(tm.SuspectDevice("box-a", 0, "a kernel hung"))
    script(tm.CheckResult("box-a", 0, True, "fine", scores=GOOD, baseline=GOOD, age_s=60.0))
    assert script.state_of("a/0") == "suspect"
    assert script.device("a/0").check.age_s == 60.0


def test_what_an_admin_decided_stands_whatever_a_check_says() -> None:
    script = patient()
    script(tm.Admin("quarantine", "a/0", "smoke"))
    script(tm.CheckResult("box-a", 0, True, "fine", scores=GOOD, baseline=GOOD))
    assert script.state_of("a/0") == "quarantined"
    assert script.device("a/0").check.passed


def test_the_check_of_a_box_that_is_gone_is_not_asked_for() -> None:
    script = patient()
    script(tm.BoxBye("box-a"))
    assert script(tm.Admin("check", "a/0")) == []


def test_a_free_device_is_checked_when_it_was_not_for_long() -> None:
    script = Script(late_s=1e6, box_timeout_s=1e6, idle_check_s=900.0)
    script(hello())
    assert script(Tick(), after=600.0) == []
    assert ("box-a", tm.CheckDevice(0, None)) in script(Tick(), after=301.0)
    assert script.state_of("a/0") == "suspect"
    assert "regular check" in script.device("a/0").reason
    script(tm.CheckResult("box-a", 0, True, scores=GOOD, baseline=GOOD))
    assert script.state_of("a/0") == "ready"
    assert ("box-a", tm.CheckDevice(0, GOOD)) in script(Tick(), after=901.0)
    script(tm.CheckResult("box-a", 0, False, "wrong results", baseline=GOOD))
    assert script.state_of("a/0") == "quarantined"
    assert "wrong results" in script.device("a/0").reason


def test_a_lent_device_has_its_regular_check_when_it_is_free_again() -> None:
    script = Script(late_s=1e6, box_timeout_s=1e6, grace_s=1e6, idle_check_s=900.0)
    script(hello())
    grant = lent(script)
    for _ in range(100):
        assert not [m for _, m in script(Tick(), after=31.0) if isinstance(m, tm.CheckDevice)]
    assert script.state_of("a/0") == "leased"
    script(tm.ReleaseLease("c1", grant.lease, grant.token))
    script(tm.LeaseOver("box-a", grant.lease))
    assert script.state_of("a/0") == "ready"
    assert ("box-a", tm.CheckDevice(0, None)) in script(Tick(), after=31.0)


def test_regular_checks_can_be_left_out() -> None:
    script = Script(late_s=1e6, box_timeout_s=1e6, idle_check_s=0.0)
    script(hello())
    script(tm.CheckResult("box-a", 0, True, scores=GOOD, baseline=GOOD))
    assert script(Tick(), after=1e5) == []
