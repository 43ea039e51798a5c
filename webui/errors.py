"""What can go wrong with the web app itself."""

from __future__ import annotations

from compiler.errors import TunefarmError


class WebError(TunefarmError):
    """Base of the web app's errors."""

    kind = "web"


class WebStartError(WebError):
    """The web app could not start: a port in use, or an address it may not bind."""

    kind = "web_start"


class NoConfigError(WebError):
    """No config may be given for what was asked; `detail["explain"]` says why and what there is."""

    kind = "no_config"


class BadRequest(WebError, ValueError):
    """A parameter that is missing, unknown or of the wrong form."""

    kind = "bad_request"


class Unauthorised(WebError):
    """No token, or one that is not known."""

    kind = "unauthorised"
