"""Web hooks: JSON is POSTed to an address in a file.

The address may hold a secret and is in no message.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tuner.errors import TuningError

_TIMEOUT_S = 10.0
_MOST_URL = 8000


class WebhookError(TuningError, kind="webhook"):
    """A web hook that could not be reached, by the name of its file."""


def webhook_address(url_file: str) -> str:
    """Return the address that `url_file` holds. Raises WebhookError, which does not name it."""
    try:
        url = Path(url_file).read_text()[:_MOST_URL].strip()
        scheme = urlsplit(url).scheme
    except (OSError, ValueError) as error:
        raise WebhookError(f"the web hook's address in {url_file} cannot be read: {type(error).__name__}") from None
    if scheme not in ("http", "https"):
        raise WebhookError(f"the web hook of {url_file} is no web address", hint="it begins with https:// or http://")
    return url


def post_webhook(url_file: str, body: bytes) -> None:
    """POST a JSON text to the address that `url_file` holds. Raises WebhookError, which does not name it."""
    url, where = webhook_address(url_file), f"the web hook of {url_file}"
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        raise WebhookError(f"{where} answers with status {error.code}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None)
        said = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(error).__name__
        raise WebhookError(f"{where} did not take the alert: {said}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what was meant for one host would go to another."""

    def redirect_request(self, *_: object) -> None:
        return None
