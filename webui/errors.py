"""Errors of the web app itself."""

from __future__ import annotations

from compiler.errors import TunefarmError


class WebError(TunefarmError, kind="web"):
    """Base of the web app's errors."""


class WebStartError(WebError, kind="web_start"):
    """The web app could not start: a port in use, or an address it may not bind."""


class NoConfigError(WebError, kind="no_config"):
    """No config may be given for what was asked; `detail["explain"]` says why and what there is."""


class BadRequest(WebError, ValueError, kind="bad_request"):
    """A parameter that is missing, unknown or of the wrong form."""


class Unauthorised(WebError, kind="unauthorised"):
    """No token, or one that is not known."""


class Forbidden(WebError, kind="forbidden"):
    """The token's role does not allow it, or a page of another site asks for it."""


class TooManyFailures(WebError, kind="too_many_failures"):
    """Too many wrong tokens came from an address; `detail["wait_s"]` says for how long it is not answered."""


class TooManyStreams(WebError, kind="too_many_streams"):
    """The client, or all of them together, have as many live streams as there may be."""


class TooLarge(WebError, kind="too_large"):
    """A request's body is larger than the token's role may send."""


class NoLauncher(WebError, kind="no_launcher"):
    """This web app starts no tuning runs, or not on what was asked for."""
