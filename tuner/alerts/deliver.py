"""Deliver alerts: to the log, a web hook, or a command.

Addresses of web hooks are in no message.
"""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Sequence

from rpc_server.machine.children import executor_environment
from rpc_server.wire.plain_text import plain
from tuner.alerts.conditions import Alert
from tuner.alerts.rules import Delivery
from tuner.errors import TuningError
from tuner.webhook import post_webhook

_log = logging.getLogger("tunefarm.alerts")
_TIMEOUT_S = 10.0


class DeliveryError(TuningError, kind="delivery"):
    """An alert that could not be delivered."""


def deliver(delivery: Delivery, alerts: Sequence[Alert]) -> None:
    """Deliver alerts in one way. Raises DeliveryError or WebhookError, which name no address."""
    match delivery.to:
        case "log":
            for alert in alerts:
                _log.log(logging.INFO if alert.over else logging.WARNING, "%s", plain(_line(alert)))
        case "webhook":
            post_webhook(delivery.url_file, _body(alerts))
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


def _run(command: Sequence[str], body: bytes) -> None:
    """Run a command with the alerts as its input, as JSON.
    It gets nothing of this process's environment that may be secret."""
    try:
        done = subprocess.run(
            command, input=body, capture_output=True, timeout=_TIMEOUT_S, check=False, env=executor_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeliveryError(f"the command {command[0]} could not be run: {type(error).__name__}") from None
    if done.returncode:
        said = plain(done.stderr.decode(errors="replace")[:400].strip())
        raise DeliveryError(f"the command {command[0]} ended with status {done.returncode}: {said}")
