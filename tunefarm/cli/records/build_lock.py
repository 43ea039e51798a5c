"""Digests of a build's parts: a lock file that a later build has to match, and a key for caches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from compiler.errors import TunefarmError
from compiler.target.target import Target
from tunefarm.cli.common import CheckFailedError
from tunefarm.client import BestReply
from tuner.kernels.csource import CSource
from tuner.kernels.files import Item
from tuner.kernels.kernel import CKernel
from tuner.task import TuningTask
from tuner.toolchain import toolchain

_VERSION = 1
_MOST_BYTES = 8 << 20
_MOST_KERNELS = 10_000
_AGAIN = "write the lock again with --lock where the change is meant"

_Text = Annotated[str, msgspec.Meta(max_length=4000)]
_Digest = Annotated[str, msgspec.Meta(max_length=128)]


class LockError(TunefarmError, kind="lock"):
    """A lock file that cannot be read or written."""


class LockedKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel of a build.
    `how` is hit, near, as written or untuned. `config` is the digest of its schedule or values (None without),
    `artifact` that of the code."""

    kernel: _Text
    function: _Text
    workload: _Digest
    how: _Text
    config: _Digest | None
    artifact: _Digest


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A build: for what, with which versions, and its kernels in their order."""

    tunefarm_lock: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    target: _Text
    release: _Text | None
    toolchain: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=20)]
    kernels: Annotated[list[LockedKernel], msgspec.Meta(max_length=_MOST_KERNELS)]


def config_digest(reply: BestReply) -> str | None:
    """The digest of what is built with: the config's text; None without one."""
    if reply.trace is None or reply.as_written:
        return None
    return hashlib.sha256(reply.trace.encode()).hexdigest()


def make_lock(target: Target, release: str | None, kernels: Sequence[LockedKernel]) -> Lock:
    """The lock of a build made here."""
    return Lock(_VERSION, str(target), release, toolchain(), list(kernels))


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock as JSON that reads well in a diff. Raises LockError."""
    text = json.dumps(msgspec.to_builtins(lock), indent=1, sort_keys=True)
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise LockError(f"cannot write {path}: {error.strerror}") from None


def read_lock(path: Path) -> Lock:
    """Read a lock. Raises LockError for anything else."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise LockError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, so it is no lock file", hint=_make(path))
        lock = msgspec.json.decode(data, type=Lock)
    except OSError as error:
        raise LockError(f"cannot read {path}: {error.strerror}", hint=_make(path)) from None
    except msgspec.DecodeError as error:
        raise LockError(f"{path} is no lock file of tunefarm build: {error}", hint=_make(path)) from None
    if lock.tunefarm_lock != _VERSION:
        message = f"the lock file {path} has format {lock.tunefarm_lock}; this tunefarm reads {_VERSION}"
        raise LockError(message, hint=_make(path))
    return lock


def _make(path: Path) -> str:
    return f"make one: tunefarm build ... --lock {path}"


def check_plan(path: Path, lock: Lock, target: Target, kernels: Sequence[LockedKernel]) -> None:
    """Raise CheckFailedError unless a build is for the same target and kernels, with the same configs."""
    changes = [] if lock.target == str(target) else [f"the target is {target}; it was {lock.target}"]
    known = {kernel.function: kernel for kernel in lock.kernels}
    here = {kernel.function for kernel in kernels}
    changes += [f"{kernel.kernel} is new" for kernel in kernels if kernel.function not in known]
    changes += [f"{kernel.kernel} is not built any more" for name, kernel in known.items() if name not in here]
    for kernel in kernels:
        if (was := known.get(kernel.function)) is not None:
            changes += _change(was, kernel)
    _refuse(path, changes)


def check_code(path: Path, lock: Lock, kernels: Sequence[LockedKernel]) -> None:
    """Raise CheckFailedError unless the code is the locked one. The configs were compared before."""
    known = {kernel.function: kernel.artifact for kernel in lock.kernels}
    versions = (
        "" if lock.toolchain == toolchain() else f" ({_versions(lock.toolchain)} then, {_versions(toolchain())} now)"
    )
    changes = [
        f"{kernel.kernel} became other code{versions}: {kernel.artifact[:12]}, was {known[kernel.function][:12]}"
        for kernel in kernels
        if known[kernel.function] != kernel.artifact
    ]
    _refuse(path, changes)


def _versions(of: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(of.items()))


def _change(was: LockedKernel, now: LockedKernel) -> list[str]:
    if was.workload != now.workload:
        return [f"{now.kernel} computes something else: {now.workload[:12]}, was {was.workload[:12]}"]
    if was.config != now.config:
        return [f"{now.kernel} has another config: {_config(now)}, was {_config(was)}"]
    return []


def _config(kernel: LockedKernel) -> str:
    return kernel.how if kernel.config is None else kernel.config[:12]


def _refuse(path: Path, changes: Sequence[str]) -> None:
    if changes:
        lines = "\n".join(f"    {change}" for change in changes)
        raise CheckFailedError(f"the build is not what {path} says:\n{lines}", hint=_AGAIN)


def cache_key(target: Target, items: Sequence[tuple[Item, TuningTask, str, BestReply]], how: Mapping[str, Any]) -> str:
    """Return a digest of everything that decides which files a build writes.
    It covers kernels, configs, target, compilers and `how` they are written. A job whose cache has files of this key
    need not build."""
    kernels = [
        {
            "workload": task.key,
            "function": name,
            "config": config_digest(reply),
            "file": item.record.get("digest"),
            "compiler": _compiler(item.what.source_code, target) if isinstance(item.what, CKernel) else None,
        }
        for item, task, name, reply in items
    ]
    facts = {"version": _VERSION, "target": str(target), "toolchain": toolchain(), "kernels": kernels, "how": dict(how)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _compiler(source: CSource, target: Target) -> list[str]:
    return [source.version(), *source.command({}, str(target))]
