"""Telling a web hook of changes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from tuner.bench.report import ReportLine, as_json, title
from tuner.errors import TuningError
from tuner.records.farm.model_farm import BenchRun

_TIMEOUT_S = 10.0


class AlertError(TuningError):
    """The web hook did not take the message."""

    kind = "alert"


def send_alert(url: str, run: BenchRun, changed: Sequence[ReportLine]) -> None:
    """POST what changed as JSON: `text` for chats, `run` and `changes` for programs. Raises AlertError."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise AlertError("the address given is no web address", hint="a web hook begins with https:// or http://")
    lines = [f"{entry.result.kernel} on {entry.result.device}: {entry.verdict}" for entry in changed]
    body = {
        "text": "\n".join([f"tunefarm: {title(run)}", *lines]),
        "run": run.id,
        "suite": run.suite,
        "changes": [as_json(entry) for entry in changed],
    }
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            pass
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise AlertError(f"the web hook at {urlsplit(url).hostname} did not take the alert: {reason}") from None
