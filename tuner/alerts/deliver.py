"""Telling of alerts: in the log, to a web hook, to a command. Addresses of web hooks are in no message."""

from __future__ import annotations

import http.client
import json
import logging
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from rpc_server.machine.children import executor_environment
from rpc_server.wire.plain_text import plain
from tuner.alerts.conditions import Alert
from tuner.alerts.rules import Delivery
from tuner.errors import TuningError

_log = logging.getLogger("tunefarm.alerts")
_TIMEOUT_S = 10.0
_MOST_URL = 8000


class DeliveryError(TuningError):
    """An alert that could not be told."""

    kind = "delivery"


def deliver(delivery: Delivery, alerts: Sequence[Alert]) -> None:
    """Tell of alerts in one way. Raises DeliveryError, which names no address."""
    match delivery.to:
        case "log":
            for alert in alerts:
                _log.log(logging.INFO if alert.over else logging.WARNING, "%s", plain(_line(alert)))
        case "webhook":
            _post(delivery.url_file, _body(alerts))
        case "command":
            _run(delivery.command, _body(alerts))


def _line(alert: Alert) -> str:
    return f"{alert.rule}: {'over: ' if alert.over else ''}{alert.text}"


def _body(alerts: Sequence[Alert]) -> bytes:
    """`text` for chats, `alerts` for programs."""
    facts = [
        {"rule": a.rule, "when": str(a.when), "subject": a.subject, "text": a.text, "over": a.over} for a in alerts
    ]
    return json.dumps({"text": "\n".join(f"tunefarm: {_line(a)}" for a in alerts), "alerts": facts}).encode()


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what was meant for one host would go to another."""

    def redirect_request(self, *_: object) -> None:
        return None


def _post(url_file: str, body: bytes) -> None:
    try:
        url = Path(url_file).read_text()[:_MOST_URL].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DeliveryError(f"the web hook's address in {url_file} cannot be read: {type(error).__name__}") from None
    where = f"the web hook of {url_file}"
    try:
        if urlsplit(url).scheme not in ("http", "https"):
            raise DeliveryError(f"{where} is no web address", hint="it begins with https:// or http://")
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_Stay).open(request, timeout=_TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        raise DeliveryError(f"{where} answers with status {error.code}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None)
        said = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(error).__name__
        raise DeliveryError(f"{where} did not take the alert: {said}") from None


def _run(command: Sequence[str], body: bytes) -> None:
    """The alerts are its input, as JSON. It gets nothing of this process's environment that may be secret."""
    try:
        done = subprocess.run(
            command, input=body, capture_output=True, timeout=_TIMEOUT_S, check=False, env=executor_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeliveryError(f"the command {command[0]} could not be run: {type(error).__name__}") from None
    if done.returncode:
        said = plain(done.stderr.decode(errors="replace")[:400].strip())
        raise DeliveryError(f"the command {command[0]} ended with status {done.returncode}: {said}")
