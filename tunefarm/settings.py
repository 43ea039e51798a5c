"""Settings: one frozen table, filled from flags, environment, a TOML file and defaults, in this order.

Only the command line and user scripts read it; the packages below receive values. The table is documented in
docs/settings.md, and a test holds that page to it.
"""

from __future__ import annotations

import contextlib
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from compiler.errors import TunefarmError

LOG_LEVELS = ("debug", "info", "warning", "error")


class SettingsError(TunefarmError, ValueError, kind="settings"):
    """A setting of the wrong type, or one that does not exist."""


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class Settings:
    """Every setting with its default. The environment variable of `db` is TUNEFARM_DB, and so on."""

    db: str = _setting("sqlite:///tunefarm.db", "SQLAlchemy URL of the record store")
    tracker: str = _setting("127.0.0.1:9190", "address of the tracker, host:port")
    api: str = _setting("http://127.0.0.1:9180", "address of the web app, for commands that fetch configs")
    host: str = _setting("127.0.0.1", "interface that servers bind to; other than loopback needs insecure")
    insecure: bool = _setting(False, "let servers bind to other interfaces without keys")
    keys: str = _setting("", "folder of keys; empty: the keys folder beside the user's config file")
    idle_check: float = _setting(900.0, "seconds after which the tracker has a free device checked again; 0: never")
    api_token: str = _setting("", "token the web app asks for, when it asks for one")
    log_level: str = _setting("warning", "debug, info, warning or error")

    @property
    def keys_folder(self) -> Path:
        return Path(self.keys).expanduser() if self.keys else _user_folder() / "keys"


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"TUNEFARM_{name.upper()}"


def config_files() -> list[Path]:
    """Where a TOML file is looked for, first match wins."""
    explicit = os.environ.get("TUNEFARM_CONFIG")
    if explicit:
        return [Path(explicit)]
    return [Path("tunefarm.toml"), _user_folder() / "config.toml"]


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "tunefarm"


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force. Flags that are None count as not given.

    Raises SettingsError naming the source of an unknown or unreadable value.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for path in config_files():
        if path.is_file() or os.environ.get("TUNEFARM_CONFIG"):
            values.update(_from_toml(path))
            break
    for f in fields(Settings):
        name = variable(f.name)
        if name in environ:
            values[f.name] = _parse(f.name, environ[name], f"environment variable {name}")
    values.update({k: v for k, v in (flags or {}).items() if v is not None})
    return Settings(**values)


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None
    known = {f.name for f in fields(Settings)}
    for name in data:
        if name not in known:
            raise SettingsError(f"{path}: no setting is called {name!r}", hint=f"known: {', '.join(sorted(known))}")
    return {name: _parse(name, value, str(path)) for name, value in data.items()}


def _parse(name: str, value: Any, source: str) -> Any:
    """A setting's value from text or TOML.
    A string is never taken from another type, nor a bool from a number."""
    if get_type_hints(Settings)[name] is bool:
        known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        found = value if isinstance(value, bool) else known.get(value.lower()) if isinstance(value, str) else None
        if found is None:
            raise SettingsError(f"{source}: {name} must be true or false, not {value!r}")
        return found
    if get_type_hints(Settings)[name] is float:
        return _number(name, value, source)
    if not isinstance(value, str):
        raise SettingsError(f"{source}: {name} must be a string, not {value!r}")
    if name == "log_level" and value not in LOG_LEVELS:
        raise SettingsError(f"{source}: {name} must be one of {', '.join(LOG_LEVELS)}, not {value!r}")
    return value


def _number(name: str, value: Any, source: str) -> float:
    """Not negative, from text or a number of TOML's."""
    with contextlib.suppress(ValueError):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and 0 <= float(value) < math.inf:
            return float(value)
    raise SettingsError(f"{source}: {name} must be a number of at least 0, not {value!r}")
