"""Quotas, tokens' limits and renamed boxes, over every backend."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.records.farm import KEY, V3, ZEN3, Farm, measured
from tuner.records.errors import InvalidRecord, QuotaExceeded, RecordNotFound
from tuner.records.farm.model_farm import DeviceEventKind, Role
from tuner.records.farm.quotas import EVERYONE, Quota
from tuner.records.farm.scopes import Area, Scopes
from tuner.records.model import RunState, RunUse


class TestQuotas:
    def test_runs_at_the_same_time(self, farm: Farm) -> None:
        farm.store.quotas.put(Quota(user="ann", runs=1), by="root")
        first = farm.run(user="ann")
        farm.run(user="bob")  # has no quota
        with pytest.raises(QuotaExceeded, match="ann has 1 run going on, and the quota is 1"):
            farm.run(user="ann")
        farm.store.runs.set_state(first.id, RunState.FINISHED)
        second = farm.run(user="ann")
        with pytest.raises(QuotaExceeded):
            farm.store.runs.take(first.id, "p1")  # it had ended
        farm.store.runs.take(second.id, "p1")
        farm.store.quotas.remove("ann")
        farm.run(user="ann")
        with pytest.raises(RecordNotFound):
            farm.store.quotas.remove("ann")

    def test_trials_of_the_last_days(self, farm: Farm) -> None:
        farm.store.quotas.put(Quota(user=EVERYONE, trials=100, days=7))
        old = datetime.now(UTC) - timedelta(days=8)
        for began, budget in ((old, 90), (None, 90)):
            run = farm.run(user="ann", budget=budget, started_at=began)
            farm.store.trials.add(measured(run, f"d{budget}{began}", 1.0, device=farm.zen3))
        with pytest.raises(QuotaExceeded, match="ann has had 1 trial within 7 days and asks for 100"):
            farm.run(user="ann", budget=100)
        farm.run(user="ann", budget=99)
        farm.store.quotas.put(Quota(user="ann", trials=1000))  # their own in place of everyone's
        farm.run(user="ann", budget=900)
        assert [quota.user for quota in farm.store.quotas.all()] == [EVERYONE, "ann"]

    def test_device_hours(self, farm: Farm) -> None:
        farm.store.quotas.put(Quota(user="ann", device_hours=2))
        run = farm.run(user="ann")
        farm.store.runs.take(run.id, "p1")
        farm.store.runs.renew(run.id, "p1", RunUse(held_s=1.5 * 3600))
        assert farm.store.quotas.hours_left("ann") == pytest.approx(0.5)
        assert farm.store.quotas.hours_left("bob") is None
        farm.run(user="ann")
        farm.store.runs.renew(run.id, "p1", RunUse(held_s=2 * 3600))
        with pytest.raises(QuotaExceeded, match=r"ann has had 2 device hours within 30 days; the quota is 2"):
            farm.run(user="ann")

    @pytest.mark.parametrize(
        "wrong", [{}, {"runs": -1}, {"trials": 10**13}, {"device_hours": float("nan")}, {"runs": 1, "days": 0}]
    )
    def test_what_is_no_quota(self, wrong: dict[str, float]) -> None:
        with pytest.raises(InvalidRecord):
            Quota(user="ann", **wrong)  # type: ignore[arg-type]


def test_a_token_keeps_what_it_is_held_to(farm: Farm) -> None:
    held = Scopes((Area.MODELS,), ("resnet",), ("2026.11",))
    _, secret = farm.store.tokens.new("ci", Role.READ, scopes=held)
    found = farm.store.tokens.find(secret)
    assert found is not None
    assert found.scopes == held
    assert farm.store.tokens.new("all", Role.READ)[0].scopes.whole
    assert not Scopes.from_json({"areas": ["of a later version"]}).whole
    with pytest.raises(InvalidRecord):
        Scopes(models=("x" * 201,))


class TestBoxes:
    def test_what_a_renamed_box_measured_goes_on_under_its_new_name(self, farm: Farm) -> None:
        device = farm.device("box1/0", ZEN3)
        farm.device("box1_2/0", ZEN3)  # another box, though "_" is a wildcard in SQL
        farm.trial(farm.run(), "fast", 1.0, device=device)
        assert farm.store.devices.rename_box("box1", "rack2.box1", by="ann") == ("rack2.box1/0",)
        assert farm.store.devices.named("box1/0") == ()
        assert farm.store.devices.named("box1_2/0")
        assert [trial.digest for trial in farm.store.devices.trials("rack2.box1/0")] == ["fast"]
        config = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert config is not None
        assert config.device == "rack2.box1/0"
        [event] = farm.store.devices.events("rack2.box1/0")
        assert (event.kind, event.data["from"], event.data["by"]) == (DeviceEventKind.RENAMED, "box1/0", "ann")

    def test_a_name_belongs_to_one_box(self, farm: Farm) -> None:
        with pytest.raises(InvalidRecord, match="already"):
            farm.store.devices.rename_box("zen", "spr")
        with pytest.raises(InvalidRecord, match="no name of a box"):
            farm.store.devices.rename_box("zen", "a/b")
        with pytest.raises(RecordNotFound):
            farm.store.devices.rename_box("nobody", "new")

    def test_records_of_a_removed_box_stay(self, farm: Farm) -> None:
        farm.trial(farm.run(), "fast", 1.0)
        assert farm.store.devices.remove_box("zen", "sent back", by="ann") == ("zen",)
        assert farm.best_digest() == "fast"
        [event] = farm.store.devices.events("zen")
        assert (event.kind, event.message) == (DeviceEventKind.REMOVED, "sent back")
