"""Keys and whom to trust: files in one folder, read and written here and nowhere else.

- identity: this machine's own key pair, readable by its user only;
- authorized: who may connect here, a line each: ROLE PUBLIC-KEY NAME, and @GROUP of a client that belongs to one;
- groups: what devices a group's clients may ask for, a line each: GROUP EXPRESSION;
- known: the keys of servers and trackers to connect to, a line each: HOST:PORT PUBLIC-KEY.

A public key as text is `tf` and 43 characters that need no quoting in a shell.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import zmq
from zmq.utils import z85

from rpc_server.errors import KeyFileError

_PREFIX = "tf"
_LOCK = ".lock"
_KEY_BYTES = 32
_MAX_FILE = 4 << 20

T = TypeVar("T")


class KeyRole(StrEnum):
    """CLIENT: may use devices.
    BOX: may lend its own devices out through a tracker. ADMIN: a client that may also drain, quarantine and check
    devices."""

    CLIENT = "client"
    BOX = "box"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair; `public` and `secret` are texts."""

    name: str
    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone who may connect here."""

    name: str
    role: KeyRole
    public: str
    group: str = ""

    @property
    def may_use_devices(self) -> bool:
        return self.role in (KeyRole.CLIENT, KeyRole.ADMIN)


class KeyRing:
    """The keys in a folder, which need not exist. Changes to its files count from the next look on."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._place = str(self.folder)  # to look at a file's time takes a third with a string
        self._seen: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"KeyRing({str(self.folder)!r})"

    # --- this machine's own -------------------------------------------------------------------------------

    def identity(self) -> KeyPair | None:
        """This machine's key pair, if it has one.
        Raises KeyFileError if others could read it, or it is damaged."""
        path = self.folder / "identity"
        try:
            mode = path.stat().st_mode
            words = path.read_text("utf-8").split()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"{path} cannot be read: {error}") from None
        if mode & 0o077:
            raise KeyFileError(f"{path} can be read by others", hint=f"chmod 600 {path}")
        if len(words) != 3:
            raise KeyFileError(f"{path} is damaged", hint="make a new one with `tunefarm keys new --replace`")
        public, secret, name = words
        return KeyPair(name, checked(public), checked(secret))

    def create_identity(self, name: str, *, replace: bool = False) -> KeyPair:
        """Make this machine's key pair. Raises KeyFileError if it has one and `replace` is false."""
        path = self.folder / "identity"
        public, secret = (z85.decode(key) for key in zmq.curve_keypair())
        identity = KeyPair(_word(name), _text(public), _text(secret))
        with self._changing():
            if path.exists() and not replace:
                hint = "`tunefarm keys show` prints its public half; --replace makes a new one"
                raise KeyFileError(f"{path} exists already", hint=hint)
            self._write("identity", f"{identity.public} {identity.secret} {identity.name}\n")
        return identity

    # --- who may connect ----------------------------------------------------------------------------------

    def authorized(self) -> dict[str, Principal]:
        """By public key. Raises KeyFileError naming a line that cannot be read."""
        return self._entries("authorized", f"ROLE KEY NAME [@GROUP], with a role of {', '.join(KeyRole)}", _principal)

    def authorize(self, public: str, role: KeyRole, name: str, group: str = "") -> Principal:
        """Let the holder of a key connect.
        A key has one role; a name may have several keys. Clients may have a group, whose devices are all that they
        get."""
        if group and role is not KeyRole.CLIENT:
            raise KeyFileError(f"a key of role {role} has no group: groups are for clients")
        principal = Principal(_word(name), role, checked(public), _word(group) if group else "")
        with self._changing():
            self._write_authorized(self.authorized() | {public: principal})
        return principal

    def revoke(self, who: str) -> list[Principal]:
        """Remove a key, every key of a name, or with "@GROUP" of a group.
        Raises KeyFileError when there is none."""
        with self._changing():
            entries = self.authorized()
            gone = [p for p in entries.values() if who in (p.public, p.name) or (p.group and who == f"@{p.group}")]
            if not gone:
                raise KeyFileError(f"no authorized key or name is {who!r}", hint="`tunefarm keys list` shows them")
            self._write_authorized({k: p for k, p in entries.items() if p not in gone})
        return gone

    def rename(self, old: str, new: str) -> list[Principal]:
        """Give every key of a name another name.
        Raises KeyFileError when there is none, or the new name is taken."""
        with self._changing():
            entries = self.authorized()
            if any(p.name == new for p in entries.values()):
                raise KeyFileError(f"there is a key of the name {new!r} already")
            renamed = {k: replace(p, name=_word(new)) for k, p in entries.items() if p.name == old}
            if not renamed:
                raise KeyFileError(f"no authorized key has the name {old!r}", hint="`tunefarm keys list` shows them")
            self._write_authorized(entries | renamed)
        return list(renamed.values())

    def _write_authorized(self, entries: dict[str, Principal]) -> None:
        lines = [f"{p.role} {p.public} {p.name}{f' @{p.group}' if p.group else ''}\n" for p in entries.values()]
        self._write("authorized", "".join(lines))

    def groups(self) -> dict[str, str]:
        """The expression of devices that each group's clients may ask for."""
        return self._entries("groups", "GROUP EXPRESSION", _group)

    def set_group(self, name: str, expr: str) -> None:
        """Say which devices a group's clients may ask for. An empty expression takes the group away."""
        if any(not ch.isprintable() or ch == "#" for ch in expr) or len(expr) > 1000:
            raise KeyFileError(f"{expr[:60]!r} cannot be a group's devices", hint="at most 1000 characters, without #")
        with self._changing():
            groups = {k: v for k, v in self.groups().items() if k != name}
            if expr.strip():
                groups[_word(name)] = " ".join(expr.split())
            self._write("groups", "".join(f"{k} {v}\n" for k, v in groups.items()))

    # --- whom to connect to -------------------------------------------------------------------------------

    def known(self) -> dict[str, str]:
        """Public keys of servers and trackers by "host:port"."""
        return self._entries("known", "HOST:PORT KEY", _known)

    def trust(self, address: str, public: str) -> None:
        """Expect this key from the server or tracker at "host:port"."""
        added = {_word(address): checked(public)}
        with self._changing():
            self._write("known", "".join(f"{a} {k}\n" for a, k in (self.known() | added).items()))

    # --- files --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Let only one process or thread at a time read a list and write it again.
        Otherwise an entry that another has removed would come back. What was remembered of the files is read again."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise KeyFileError(f"{self.folder} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen.clear()
            yield
        finally:
            os.close(lock)

    def _entries(self, name: str, form: str, read: Callable[[list[str]], tuple[str, T] | None]) -> dict[str, T]:
        """A file's lines as `read` understands them, comments left out; read anew when it has changed."""
        path = f"{self._place}/{name}"
        try:
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_size)
            seen = self._seen.get(name)
            if seen is not None and seen[0] == stamp:
                return seen[1]
            if stat.st_size > _MAX_FILE:
                raise KeyFileError(f"{path} is {stat.st_size:,} bytes, which is no list of keys")
            lines = Path(path).read_text("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"{path} cannot be read: {error}") from None
        found: dict[str, T] = {}
        for number, line in enumerate(lines, 1):
            if words := line.partition("#")[0].split():
                entry = read(words)
                if entry is None:
                    raise KeyFileError(f"{path}, line {number}: expected {form}")
                found[entry[0]] = entry[1]
        self._seen[name] = (stamp, found)
        return found

    def _write(self, name: str, text: str) -> None:
        """Replace a file as a whole, readable by its owner only."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _temporary(self.folder) as (descriptor, path):
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(path, self.folder / name)
        except OSError as error:
            raise KeyFileError(f"{self.folder / name} cannot be written: {error.strerror}") from None
        self._seen.pop(name, None)


def _principal(words: list[str]) -> tuple[str, Principal] | None:
    match words:
        case [role, public, name] if role in list(KeyRole):
            return checked(public), Principal(name, KeyRole(role), public)
        case [role, public, name, group] if role == KeyRole.CLIENT and group.startswith("@") and len(group) > 1:
            return checked(public), Principal(name, KeyRole(role), public, group[1:])
        case _:
            return None


def _group(words: list[str]) -> tuple[str, str] | None:
    return (words[0], " ".join(words[1:])) if len(words) > 1 else None


def _known(words: list[str]) -> tuple[str, str] | None:
    match words:
        case [address, public]:
            return address, checked(public)
        case _:
            return None


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[tuple[int, str]]:
    descriptor, path = tempfile.mkstemp(dir=folder)  # mode 0600
    try:
        yield descriptor, path
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


# --- keys as text ------------------------------------------------------------------------------------------


def checked(text: str) -> str:
    """The key's text. Raises KeyFileError (a ValueError) when it is none."""
    to_curve(text)
    return text


def to_curve(text: str) -> bytes:
    """A key's text as ZeroMQ takes it."""
    with contextlib.suppress(binascii.Error, ValueError):
        if text.startswith(_PREFIX):
            raw = base64.b64decode(text.removeprefix(_PREFIX) + "=", altchars=b"-_", validate=True)
            if len(raw) == _KEY_BYTES and _text(raw) == text:
                return z85.encode(raw)
    raise KeyFileError(f"{text[:60]!r} is no key", hint="a key is `tf` and 43 letters, digits, - and _")


def from_curve(key: str | bytes) -> str:
    """The text of a key as ZeroMQ gives it."""
    return _text(z85.decode(key))


def _text(raw: bytes) -> str:
    return _PREFIX + base64.b64encode(raw, altchars=b"-_").decode().rstrip("=")


def _word(name: str) -> str:
    if not name or any(ch.isspace() or ch == "#" or not ch.isprintable() for ch in name) or len(name) > 200:
        raise KeyFileError(f"{name!r} cannot be a name here", hint="use no spaces and no #")
    return name
