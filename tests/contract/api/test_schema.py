"""The API answers as its OpenAPI description says, to questions that schemathesis makes up from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.kit.records.seed import FakeTracker, Seeded
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from webui.app import create_app

QUESTIONS = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_answers_are_as_described(seeded_store: RecordStore, ids: Seeded) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    seeded_store.runs.set_state(ids.running, RunState.INTERRUPTED)  # a stream of events ends with its run
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", create_app(seeded_store, FakeTracker()))
    problems: list[str] = []
    asked: set[str] = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        asked.add(operation.label)
        try:
            ask(operation)
        except Exception as error:  # all that is wrong is to be seen at once
            problems.append(f"{operation.label}: {error}")
    assert "\n\n".join(problems) == ""
    assert {"GET /api/v1/best", "POST /api/v1/best/batch", "GET /api/v1/records", "POST /api/v1/releases"} <= asked


def ask(operation: Any) -> None:
    """Send made-up requests, right and wrong ones, and check the replies."""
    from schemathesis.checks import not_a_server_error  # all of it takes a second to import
    from schemathesis.specs.openapi import checks

    described = [checks.content_type_conformance, checks.response_schema_conformance, checks.status_code_conformance]

    @QUESTIONS
    @given(case=operation.as_strategy())
    def one(case: Any) -> None:
        case.call_and_validate(checks=[not_a_server_error, *described])

    one()
