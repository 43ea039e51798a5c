"""The name of who runs this process, as lists of devices and sessions show it."""

from __future__ import annotations

import getpass
import os
import socket
from functools import cache


def user_name() -> str:
    """Return the user's name; the number of a user that has none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@cache
def user_at_host() -> str:
    """Return "user@host"."""
    return f"{user_name()}@{socket.gethostname()}"
