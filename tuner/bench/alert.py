"""Telling a web hook of changes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tuner.bench.report import ReportLine, as_json, title
from tuner.records.farm.model_farm import BenchRun
from tuner.webhook import post_webhook


def send_alert(url_file: str, run: BenchRun, changed: Sequence[ReportLine]) -> None:
    """POST what changed as JSON: `text` for chats, `run` and `changes` for programs. Raises WebhookError."""
    lines = [f"{entry.result.kernel} on {entry.result.device}: {entry.verdict}" for entry in changed]
    body = {
        "text": "\n".join([f"tunefarm: {title(run)}", *lines]),
        "run": run.id,
        "suite": run.suite,
        "changes": [as_json(entry) for entry in changed],
    }
    post_webhook(url_file, json.dumps(body).encode())
