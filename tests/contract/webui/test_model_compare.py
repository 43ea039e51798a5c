"""Two sides of a model: versions on one device class, one version on two."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx

from tests.kit.records.seed import ZEN3, FakeTracker, seed
from tests.kit.web import running_app
from tuner.records.store import RecordStore
from webui.pages.figures import _dates

CHANGE = re.compile(r'class="num">[+−]\d')


def test_what_both_sides_share_is_said_once_and_only_profiled_sides_differ(store: RecordStore) -> None:
    model = seed(store).model
    with running_app(store, FakeTracker()) as address, httpx.Client(base_url=address, timeout=60) as client:

        def page(a: str, b: str, class_a: str, class_b: str) -> str:
            sides = {"a": a, "b": b, "class_a": class_a, "class_b": class_b}
            reply = client.get(f"/models/{model}/compare", params=sides)
            assert reply.status_code == 200
            return reply.text

        versions = page("cccc", "dddd", ZEN3, ZEN3)
        assert versions.count(ZEN3) == 1
        assert "version cccccccc" in versions
        assert CHANGE.search(versions)
        assert "<Macro" not in versions
        assert "was not profiled" not in versions
        classes = page("cccc", "cccc", ZEN3, "elsewhere")
        assert "both version cccccccc" in classes
        assert "It was not profiled on elsewhere" in classes
        assert not CHANGE.search(classes)


def test_labels_of_one_day_are_times_of_it() -> None:
    noon = datetime(2026, 11, 28, 12, 5, tzinfo=UTC)
    assert _dates([noon, noon + timedelta(minutes=2)]) == [(0, "12:05"), (1, "12:07")]
    assert _dates([noon, noon + timedelta(days=1)]) == [(0, "11-28"), (1, "11-29")]
    assert len(_dates([noon + timedelta(days=day) for day in range(16)])) == 8
