"""Numbers in addresses of pages that no database can hold are refused as any other wrong parameter."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.kit.web import running_app
from tuner.records.store import RecordStore

_HUGE = 10**30
ADDRESSES = (
    "/runs/{}", "/runs/{}/choices", "/runs/1?before={}", "/runs?before={}", "/trials/{}", "/best/{}", "/best?after={}",
    "/workloads?after={}", "/benchmarks/{}", "/benchmarks?before={}", "/releases?before={}", "/compare?a={}",
    "/compare?a=1&b={}", "/export/trials.csv?run={}", "/export/runs.json?run={}", "/export/benchmarks.csv?run={}",
    "/export/choices.csv?run={}", "/export/compared.csv?run=1&other={}",
)  # fmt: skip


def test_a_number_that_is_too_large_is_a_wrong_parameter(tmp_path: Path) -> None:
    with (
        RecordStore.open(tmp_path / "records.db", create=True) as store,
        running_app(store) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        replies = {path: client.get(path.format(_HUGE)) for path in ADDRESSES}
    assert {path: reply.status_code for path, reply in replies.items()} == dict.fromkeys(ADDRESSES, 400)
