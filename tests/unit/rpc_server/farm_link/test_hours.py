"""A box that is lent only at set hours, as its agent and the tracker see it."""

from __future__ import annotations

from rpc_server.farm_link.registrar_core import Forbid, SendToTracker
from rpc_server.wire.tracker_messages import BoxHeartbeat, GrantLease, LeaseOver, Queued, Refused
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tests.unit.rpc_server.farm_link.test_registrar import grant, registered

WHY = "lent Sat only; opens Sat 00:00 UTC"


def test_a_closed_box_is_not_lent_and_who_waits_is_told_when_it_opens() -> None:
    script = Script(late_s=1e6, box_timeout_s=1e6)
    script(hello())
    script(BoxHeartbeat("box-a", (), WHY))
    assert (script.state_of("a/0"), script.device("a/0").reason) == ("closed", WHY)
    assert script(ask()) == [("c1", Queued("r1", 1, 1, 1, None, f"a/0 is closed: {WHY}"))]
    ((_, refused),) = script(ask("r2", wait_s=0.0))
    assert isinstance(refused, Refused)
    assert WHY in refused.message
    assert any(isinstance(message, GrantLease) for _, message in script(BoxHeartbeat("box-a")))


def test_a_lease_goes_on_after_closing_time_unless_the_box_ends_it() -> None:
    script = Script(late_s=1e6, box_timeout_s=1e6)
    script(hello())
    held = lent(script)
    script(BoxHeartbeat("box-a", (held.lease,), WHY))
    assert script.state_of("a/0") == "leased"
    script(LeaseOver("box-a", held.lease))
    assert script.state_of("a/0") == "closed"


def test_the_agent_says_at_once_that_it_closes_and_ends_leases_if_it_should() -> None:
    agent = registered()
    assert agent.at_hours("", True, 0.1) == []
    assert agent.at_hours(WHY, False, 0.1) == []
    assert agent.tick(0.1) == [SendToTracker(BoxHeartbeat("me", (), WHY))]
    agent.at_hours("", False, 0.2)
    agent.handle(grant(), 0.3)
    ended = agent.at_hours(WHY, True, 0.4)
    assert Forbid("run-1", f"its box closes: {WHY}") in ended
    assert any(isinstance(action, SendToTracker) and isinstance(action.message, LeaseOver) for action in ended)
    assert agent.at_hours(WHY, True, 0.5) == []
