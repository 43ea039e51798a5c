"""Lookups that were answered before: given again without asking the store, until what they rest on changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.kit import patient_http
from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, ZEN3, Farm, measured
from tests.kit.records.runs import eventually, statements
from tests.kit.web import running_app
from tuner.records.farm.model_farm import DeviceEventKind, Role
from tuner.records.store import RecordStore
from webui.remembered import Freshness

QUERY = {"workload": KEY, "target": V3, "device_class": ZEN3}


@pytest.fixture
def api(farm: Farm) -> Iterator[httpx.Client]:
    with running_app(farm.store) as address, patient_http.Client(base_url=f"{address}/api/v1") as client:
        yield client


def cost(api: httpx.Client) -> float:
    return float(api.get("/best", params=QUERY).json()["config"]["cost_s"])


def test_a_question_asked_again_is_not_looked_up(api: httpx.Client, farm: Farm) -> None:
    farm.trial(farm.run(), "d", 1.0, 1.0)
    first = api.get("/best", params=QUERY)
    with statements(farm.store) as asked:
        again = api.get("/best", params=QUERY)
        unchanged = api.get("/best", params=QUERY, headers={"If-None-Match": first.headers["etag"]})
    assert asked == []
    assert again.status_code == 200
    assert again.content == first.content
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["x-content-type-options"] == "nosniff"
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_a_new_best_shows_on_the_next_request(api: httpx.Client, farm: Farm) -> None:
    run = farm.run()
    for number in range(1, 7):
        farm.trial(run, f"d{number}", 1.0 / number, 1.0 / number)
        assert cost(api) == 1.0 / number
        assert cost(api) == 1.0 / number


def test_a_baseline_that_is_shorter_at_the_end_of_the_run_shows(api: httpx.Client, farm: Farm) -> None:
    run = farm.run()
    farm.baseline(run, 2.0)
    farm.trial(run, "d", 1.0, 1.0)

    def ratios() -> tuple[float, float]:
        config = api.get("/best", params=QUERY).json()["config"]
        (task,) = api.get(f"/runs/{run.id}").json()["tasks"]
        return config["untuned_s"] / config["cost_s"], task["baseline_cost_s"] / task["best_cost_s"]

    assert ratios() == ratios() == (2.0, 2.0)
    farm.baseline(run, 1.5)
    assert ratios() == ratios() == (1.5, 1.5)


def test_a_new_best_of_another_process_shows(api: httpx.Client, farm: Farm) -> None:
    """The other process is another store, as far as the database can tell; a server says so in its own time."""
    run = farm.run()
    with RecordStore.open(farm.store._engine.url.render_as_string(hide_password=False)) as elsewhere:
        for number in range(1, 7):
            elsewhere.trials.add(measured(run, f"d{number}", 1.0 / number, 1.0 / number, device=farm.zen3))
            eventually(lambda number=number: cost(api) == 1.0 / number)  # type: ignore[misc]
            assert cost(api) == 1.0 / number


def test_a_tag_ends_with_what_it_stood_for(api: httpx.Client, farm: Farm) -> None:
    run = farm.run()
    farm.trial(run, "d", 1.0, 1.0)
    tag = {"If-None-Match": api.get("/best", params=QUERY).headers["etag"]}
    assert api.get("/best", params=QUERY, headers=tag).status_code == 304
    farm.trial(run, "e", 0.5, 0.5)
    changed = api.get("/best", params=QUERY, headers=tag)
    assert (changed.status_code, changed.json()["config"]["cost_s"]) == (200, 0.5)


def test_trials_that_are_not_best_end_no_answer(api: httpx.Client, farm: Farm) -> None:
    run = farm.run()
    farm.trial(run, "d", 1.0, 1.0)
    assert cost(api) == 1.0
    farm.trial(run, "slower", 2.0, 2.0)
    with statements(farm.store) as asked:
        assert cost(api) == 1.0
    assert asked == []


@pytest.mark.parametrize("seconds", [0.5, 5.0])
def test_a_config_that_lost_to_its_function_says_so(api: httpx.Client, farm: Farm, seconds: float) -> None:
    run = farm.run()
    farm.baseline(run, seconds)
    farm.trial(run, "d", 1.0, 1.0, 1.0)
    alone = api.get("/best", params=QUERY).json()
    place = {name: QUERY[name] for name in ("target", "device_class")}
    [batched] = api.post("/best/batch", json={"lookups": [{"workload": KEY}], **place}).json()["answers"]
    assert alone["config"]["untuned_s"] == seconds
    assert alone["as_written"] is batched["as_written"] is (seconds == 0.5)


def test_whatever_an_answer_rests_on_ends_it(api: httpx.Client, farm: Farm) -> None:
    """Not only trials: what devices may be given, and what is in doubt."""
    farm.trial(farm.run(), "d", 1.0, 1.0)
    there = {**QUERY, "device_class": SPR}
    assert api.get("/best", params=there).status_code == 404
    assert api.get("/best", params=there).status_code == 404
    farm.store.devices.declare_compatible(SPR, [ZEN3])
    assert api.get("/best", params=there).json()["match"] == "compatible"
    farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED)
    assert api.get("/best", params=there).status_code == 404
    assert "set aside" in " ".join(api.get("/best", params=QUERY).json()["error"]["detail"]["explain"])


def test_errors_stay_what_they_are(api: httpx.Client) -> None:
    for _ in range(2):
        miss = api.get("/best", params={**QUERY, "workload": OTHER_KEY})
        assert (miss.status_code, miss.json()["error"]["kind"]) == (404, "no_config")
        wrong = api.get("/best", params={**QUERY, "target": "-?-"})
        assert (wrong.status_code, wrong.json()["error"]["kind"]) == (400, "target")
        assert api.get("/best").json()["error"]["kind"] == "bad_request"


def test_a_remembered_answer_still_takes_a_token(farm: Farm) -> None:
    farm.trial(farm.run(), "d", 1.0, 1.0)
    token = {"Authorization": f"Bearer {farm.store.tokens.new('t', Role.READ)[1]}"}
    with (
        running_app(farm.store, open_role=None) as address,
        patient_http.Client(base_url=f"{address}/api/v1") as client,
    ):
        assert client.get("/best", params=QUERY, headers=token).status_code == 200
        assert client.get("/best", params=QUERY, headers=token).status_code == 200
        assert client.get("/best", params=QUERY).status_code == 401
        assert client.get("/best", params=QUERY, headers={"Authorization": "Bearer wrong"}).status_code == 401


def batch(api: httpx.Client, *workloads: str, **more: object) -> Any:
    lookups = [{"workload": workload} for workload in workloads]
    reply = api.post("/best/batch", json={"target": V3, "device_class": ZEN3, "lookups": lookups, **more})
    assert reply.headers["content-type"] == "application/json"
    return reply.json()


def test_a_batch_is_one_question_for_all_that_are_not_remembered(api: httpx.Client, farm: Farm) -> None:
    farm.trial(farm.run(), "d", 1.0, 1.0)
    with statements(farm.store) as asked:
        alone = batch(api, KEY)
    one = len(asked)
    strangers = [f"{n:064x}" for n in range(1000, 1300)]
    with statements(farm.store) as asked:
        found = batch(api, KEY, *strangers[:150], nearest=False)
    several = len(asked)
    assert found["answers"][0] == alone["answers"][0]
    assert found["misses"] == 150
    with statements(farm.store) as asked:
        more = batch(api, *strangers, KEY, nearest=False)
    assert 0 < one <= several == len(asked) < 10
    assert [answer["workload"] for answer in more["answers"]] == [*strangers, KEY]
    with statements(farm.store) as asked:
        assert batch(api, *reversed(strangers), KEY, KEY, nearest=False)["misses"] == 300
        assert batch(api, KEY) == alone
    assert asked == []


def test_a_batch_follows_every_new_best(api: httpx.Client, farm: Farm) -> None:
    run = farm.run()
    for number in range(1, 6):
        farm.trial(run, f"d{number}", 1.0 / number, 1.0 / number)
        hit, miss = batch(api, KEY, OTHER_KEY)["answers"]
        assert (hit["cost_s"], miss["match"]) == (1.0 / number, "miss")


def test_questions_of_batches_that_differ_have_answers_of_their_own(api: httpx.Client, farm: Farm) -> None:
    farm.trial(farm.run(), "d", 1.0, 1.0)
    for _ in range(2):
        assert batch(api, KEY)["answers"][0]["match"] == "exact"
        assert batch(api, KEY, toolchain="another")["answers"][0]["match"] == "compatible"
        assert batch(api, KEY, device_class="another")["answers"][0]["match"] == "miss"
        wrong = {"target": V3, "lookups": [{"workload": KEY, "function": "no script"}]}
        assert api.post("/best/batch", json=wrong).json()["error"]["kind"] == "invalid_record"
        wrong = {"target": "-?-", "lookups": [{"workload": KEY}]}
        assert api.post("/best/batch", json=wrong).json()["error"]["kind"] == "target"


class SlowWatch:
    """Looks when told to, and says how often it has looked."""

    def __init__(self) -> None:
        self.looks = 0
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def mark(self) -> int:
        self.looks += 1
        look = self.looks
        self.begun.release()
        assert self.go_on.acquire(timeout=60)
        return look

    def glance(self) -> None: ...


def test_a_look_begun_too_early_is_not_shared() -> None:
    watch = SlowWatch()

    async def ask() -> list[object]:
        freshness = Freshness(watch)  # type: ignore[arg-type]
        first = asyncio.ensure_future(freshness.mark())
        assert await asyncio.to_thread(watch.begun.acquire, True, 60)
        later = [asyncio.ensure_future(freshness.mark()) for _ in range(5)]
        await asyncio.sleep(0)
        watch.go_on.release()
        assert await first == 1
        watch.go_on.release()
        return [await asked for asked in later]

    with ThreadPoolExecutor(1) as apart:  # a browser's tests leave this thread a running loop
        assert apart.submit(asyncio.run, ask()).result() == [2] * 5
    assert watch.looks == 2
