"""The parts of a new farm, made if they are missing.

Keys, an admin, a database, a token, systemd units.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from compiler.errors import TunefarmError
from rpc_server.machine.user_name import user_name
from rpc_server.wire.keys import KeyRing, KeyRole
from tunefarm.cli.farm.units import Service, unit_text
from tuner.records.db import migrate
from tuner.records.db.database import parse_url, show_url
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore

ADMIN_FILE = "admin.toml"
ENV_FILE = "farm.env"
DB_FILE = "tunefarm.db"
_OURS = frozenset({ADMIN_FILE, ENV_FILE, "keys", "units"})
SERVER_PORT = 9091


@dataclass(frozen=True)
class FarmPlan:
    """A farm to be set up: its folder, the host by which others reach it, its user, and its database.
    `box` is the name under which this machine's CPU is lent, "" for not at all. Services run as `user`."""

    folder: Path
    address: str
    admin: str
    db: str
    user: str
    box: str = ""
    tracker_port: int = 9190
    web_port: int = 9180

    @property
    def tracker(self) -> str:
        return f"{self.address}:{self.tracker_port}"

    @property
    def host(self) -> str:
        """The interface that services listen on."""
        return self.address if self.address in ("127.0.0.1", "localhost") else "0.0.0.0"

    @property
    def api(self) -> str:
        return f"http://{self.address}:{self.web_port}"

    def keys(self, whose: str) -> Path:
        return self.folder / "keys" / whose


@dataclass(frozen=True)
class SetupStep:
    """One thing that a farm needs.
    `state` is made, kept, or differs: it exists, but not as this plan would make it."""

    what: str
    state: str
    where: str


@dataclass
class _Steps:
    done: list[SetupStep] = field(default_factory=list)

    def add(self, what: str, made: bool, where: object) -> None:
        self.done.append(SetupStep(what, "made" if made else "kept", str(where)))


def set_up(plan: FarmPlan) -> tuple[SetupStep, ...]:
    """Make what is missing; what is there stays as it is. Raises TunefarmError."""
    steps = _Steps()
    with _private():
        try:
            plan.folder.mkdir(parents=True, exist_ok=True)
            others = [path.name for path in plan.folder.iterdir() if not _is_ours(path.name)]
        except OSError as error:
            raise TunefarmError(f"{plan.folder} cannot be made: {error.strerror}", hint="give another folder") from None
        if others:  # all of the folder is given to the services' account
            hint = "give a folder that is empty or not there yet"
            raise TunefarmError(f"{plan.folder} holds other things, such as {min(others)}", hint=hint)
        _keys(plan, steps)
        _database(plan, steps)
        _files(plan, steps)
        _give(plan)
    return tuple(steps.done)


def _is_ours(name: str) -> bool:
    """Whether a file or folder of a farm's folder is the farm's.
    SQLite puts files of its own beside the database."""
    return name in _OURS or name.startswith(DB_FILE)


def _give(plan: FarmPlan) -> None:
    """Give the services' files to their account. The admin's own stay with whoever sets up the farm."""
    account = pwd.getpwnam(plan.user)
    if account.pw_uid == os.geteuid():
        return
    admin = {plan.folder / ADMIN_FILE, plan.keys("admin")}
    for path in [plan.folder, *plan.folder.rglob("*")]:
        if path.is_symlink() or path in admin or path.parent in admin:
            continue
        try:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        except OSError as error:
            hint = "run it as root, or as that account"
            raise TunefarmError(f"{path} cannot be given to {plan.user}: {error.strerror}", hint=hint) from None


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Make files inside private to their owner."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _keys(plan: FarmPlan, steps: _Steps) -> None:
    """Make a key each for tracker, web app, admin and box.
    The tracker knows the others, and they know it."""
    tracker = KeyRing(plan.keys("tracker"))
    public = _identity(tracker, "tracker", steps)
    others = [("web", "web", KeyRole.CLIENT), ("admin", plan.admin, KeyRole.ADMIN)]
    others += [("box", plan.box, KeyRole.BOX)] if plan.box else []
    for folder, name, role in others:
        ring = KeyRing(plan.keys(folder))
        key = _identity(ring, name, steps)
        known = tracker.authorized().get(key)
        if known is None:
            tracker.authorize(key, role, name)
        steps.add(
            f"right of {(known.name if known else name)} to connect as {known.role if known else role}",
            known is None,
            tracker.folder,
        )
        if ring.known().get(plan.tracker) != public:
            ring.trust(plan.tracker, public)


def _identity(ring: KeyRing, name: str, steps: _Steps) -> str:
    found = ring.identity()
    steps.add(f"key of {found.name if found else name}", found is None, ring.folder)
    return (found or ring.create_identity(name)).public


def _database(plan: FarmPlan, steps: _Steps) -> None:
    try:
        ready = migrate.check(plan.db).ok
    except TunefarmError:  # not there yet; what else is wrong, the upgrade says
        ready = False
    if not ready:
        migrate.upgrade(plan.db)
    steps.add("database", not ready, show_url(parse_url(plan.db)))


def _files(plan: FarmPlan, steps: _Steps) -> None:
    _write(plan.folder / ENV_FILE, f"TUNEFARM_DB={_quoted(plan.db)}\n", "database of the services", steps)
    admin = plan.folder / ADMIN_FILE
    if admin.exists():
        steps.add("settings and token of the admin", False, admin)
    else:
        settings = {"tracker": plan.tracker, "api": plan.api, "keys": str(plan.keys("admin")), "db": plan.db}
        secret = _token(plan)
        settings |= {"api_token": secret} if secret else {}
        text = "".join(f"{name} = {_quoted(value)}\n" for name, value in settings.items())
        _write(admin, text, "settings and token of the admin", steps)
    for service in services(plan):
        _write(plan.folder / "units" / f"{service.unit}.service", unit_text(service), "systemd unit", steps)


def _token(plan: FarmPlan) -> str:
    """A new admin token of the web app; "" where the admin has one."""
    with RecordStore.open(plan.db) as store:
        if any(token.name == plan.admin for token in store.tokens.all()):
            return ""
        return store.tokens.new(plan.admin, Role.ADMIN, created_by=user_name())[1]


def services(plan: FarmPlan) -> tuple[Service, ...]:
    """The farm's processes on this machine."""
    make = partial(Service, folder=plan.folder, user=plan.user, command=_command())
    tracker = make(
        unit="tunefarm-tracker",
        description="tunefarm tracker",
        words=("tracker", "--host", plan.host, "--port", str(plan.tracker_port)),
        keys=plan.keys("tracker"),
    )
    web = make(
        unit="tunefarm-web",
        description="tunefarm web app",
        words=(
            "web", "--host", plan.host, "--port", str(plan.web_port), "--tracker", plan.tracker, "--require-token",
        ),
        keys=plan.keys("web"),
        environment=plan.folder / ENV_FILE,
    )  # fmt: skip
    if not plan.box:
        return tracker, web
    box = make(
        unit="tunefarm-server",
        description="tunefarm device server",
        words=(
            "server", "--host", plan.host, "--port", str(SERVER_PORT), "--tracker", plan.tracker, "--name", plan.box,
            *(() if plan.host == plan.address else ("--address", plan.address)),
        ),
        keys=plan.keys("box"),
        sessions=True,
    )  # fmt: skip
    return tracker, web, box


def _command() -> str:
    """How the `tunefarm` command of this installation is run."""
    script = Path(sys.executable).with_name("tunefarm")
    return str(script) if script.exists() else f"{sys.executable} -m tunefarm"


def _write(path: Path, text: str, what: str, steps: _Steps) -> None:
    """Write a file that is not there."""
    try:
        if path.exists():
            state = "kept" if path.read_text() == text else "differs"
            steps.done.append(SetupStep(what, state, str(path)))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise TunefarmError(f"{path} cannot be written: {error.strerror}") from None
    steps.add(what, True, path)


def _quoted(text: str) -> str:
    """Text as TOML and systemd's environment files take it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
