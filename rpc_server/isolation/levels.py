"""How far apart a box keeps its sessions: the requested level, the kernel's, and the promised one."""

from __future__ import annotations

from enum import Enum

import msgspec

from rpc_server.errors import ServerStartError

AUTO = "auto"
ROOT = "root"


class Level(Enum):
    """FULL: namespaces, a view of the machine of its own, another user as root, and few system calls.
    PARTIAL: all of that but the namespaces, with Landlock in place of the view. NONE: limits, and another user as
    root."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class Means(msgspec.Struct, frozen=True):
    """The isolation that this machine allows.

    `no_namespaces` and `no_user` say why not; empty: it is allowed. `filters`: system calls can be refused; `landlock`:
    its version, 0 for none.
    """

    no_namespaces: str = ""
    no_user: str = ""
    filters: bool = True
    landlock: int = 6


class Isolation(msgspec.Struct, frozen=True):
    """A box's isolation: `user` runs kernels ("": the server's own user).
    `holds` and `is_open` are short sentences about each thing that is kept apart, or is not."""

    level: Level = Level.NONE
    user: str = ""
    holds: tuple[str, ...] = ()
    is_open: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"isolation {self.level.value}", *(("; ".join(self.holds),) if self.holds else ())]
        return ": ".join(parts) + (f". Not kept apart: {'; '.join(self.is_open)}" if self.is_open else "")


def choose(wanted: str, user: str, means: Means, *, root: bool, reachable: bool) -> Isolation:
    """The isolation that a box gets.

    `wanted` is a level or AUTO, the best there is; `user` is whom executors become. Raises ServerStartError: it cannot
    be had, or others can reach the box and nobody said that less will do.
    """
    becomes = user if root and user != ROOT else ""
    if wanted == Level.FULL.value or (wanted == AUTO and not means.no_namespaces and (becomes or not root)):
        if root and not becomes:
            raise ServerStartError(
                "kernels that run as root are not isolated", hint="leave out --user root, or say --isolation none"
            )
        if means.no_namespaces:
            raise ServerStartError(
                f"sessions cannot be fully isolated here: {means.no_namespaces}",
                hint="docs/security.md says what that takes; --isolation partial or none does with less",
            )
        return promised(Level.FULL, becomes, means, root=root)
    if becomes and means.no_user:
        raise ServerStartError(
            f"kernels would run as root: {means.no_user}",
            hint="start the server as another user, set TMPDIR to a folder that others can enter, or say --user root",
        )
    level = Level.NONE if wanted == Level.NONE.value or (root and not becomes) else Level.PARTIAL
    if wanted == Level.PARTIAL.value and level is Level.NONE:
        raise ServerStartError(
            "kernels that run as root are not isolated", hint="leave out --user root, or say --isolation none"
        )
    isolation = promised(level, becomes, means, root=root)
    if wanted == AUTO and reachable and (means.no_namespaces or not (root and not becomes)):
        why = means.no_namespaces or "kernels run as root"
        raise ServerStartError(
            f"sessions of those who can reach this box would not be isolated from each other: {why}",
            hint=f"--isolation {level.value} starts it all the same; not kept apart: {'; '.join(isolation.is_open)}",
        )
    return isolation


def promised(level: Level, user: str, means: Means, *, root: bool) -> Isolation:
    """Return what holds, and what does not, at a level."""
    full, partial = level is Level.FULL, level is Level.PARTIAL
    facts = (
        (bool(user) or not root, "kernels are not root"),
        (user == "each" or full, "sessions cannot touch each other's files"),
        (full or (partial and bool(means.landlock)), "files outside the session's folder are hidden or read-only"),
        (full or user == "each", "other processes cannot be read or stopped"),
        (full, "processes, /tmp and /dev/shm end with the session"),
        (full or (partial and means.filters), "no network"),
        (full or (partial and means.landlock >= 6), "local services cannot be reached"),
        (level is not Level.NONE and means.filters, "few system calls"),
    )
    return Isolation(
        level, user, tuple(text for holds, text in facts if holds), tuple(text for holds, text in facts if not holds)
    )
