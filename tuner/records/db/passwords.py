"""Show addresses and command lines without passwords. Only this module takes passwords out of text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

HIDDEN = "***"

# a database's password may hold any character that its author did not escape, so it reaches to the last "@"
_USERS = re.compile(
    r"(?P<database>\bpostgres\w*(?:\+\w+)?://[^:/?#@]*:).*@|(?P<other>://[^:/?#@]*:)[^/?#]*@", re.DOTALL
)
_QUERY = re.compile(r"(?P<name>[?&](?:ssl)?password=)[^&#]*")


def without_password(text: str) -> str:
    """Return one address, or one word of a command that holds an address, with `***` for each password."""
    shown = _USERS.sub(lambda found: f"{found['database'] or found['other']}{HIDDEN}@", text)
    return _QUERY.sub(rf"\g<name>{HIDDEN}", shown)


def shown_command(words: Iterable[str]) -> str:
    """Return a command line to show or to record: quoted for a shell, without passwords."""
    return shlex.join(without_password(word) for word in words)


def shown_text(text: str) -> str:
    """Return a message with the passwords of all addresses in it hidden. An address ends at white space."""
    return "".join(without_password(part) for part in re.split(r"(\s+)", text))
