"""Errors of the web app itself."""

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


class Forbidden(WebError):
    """The token's role does not allow it, or a page of another site asks for it."""

    kind = "forbidden"


class TooManyFailures(WebError):
    """Too many wrong tokens came from an address; `detail["wait_s"]` says for how long it is not answered."""

    kind = "too_many_failures"


class TooManyStreams(WebError):
    """The client, or all of them together, have as many live streams as there may be."""

    kind = "too_many_streams"


class TooLarge(WebError):
    """A request's body is larger than the token's role may send."""

    kind = "too_large"


class NoLauncher(WebError):
    """This web app starts no tuning runs, or not on what was asked for."""

    kind = "no_launcher"
