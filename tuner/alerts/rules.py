"""Alert rules in TOML: what to watch, and how to report it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from tuner.errors import TuningError

_MOST = 100
_LONGEST = 400
_RULE_KEYS = {"name", "when", "for_s", "longer_than_s", "factor", "free_below", "path", "match"}
_DELIVER_KEYS = {"to", "url_file", "command"}


class RulesError(TuningError, ValueError, kind="rules"):
    """A file of alert rules that cannot be read or says something impossible."""


class When(StrEnum):
    """The condition of a rule."""

    BOX_GONE = "box-gone"
    KERNEL_SLOWER = "kernel-slower"
    QUEUE_WAIT = "queue-wait"
    DISK_FULL = "disk-full"


@dataclass(frozen=True)
class Rule:
    """A rule: what to watch, and from which value on to report it.

    `match` is a pattern, with wild cards, of devices, kernels or expressions. `for_s` is how long a box is silent,
    and `longer_than_s` how long the first in the queue waits. `factor` is a kernel's time over its usual one.
    `free_below` is the free share of the disk of `path`.
    """

    name: str
    when: When
    match: str = "*"
    for_s: float = 60.0
    longer_than_s: float = 600.0
    factor: float = 1.05
    free_below: float = 0.05
    path: str = "/"


@dataclass(frozen=True)
class Delivery:
    """A way to report alerts.
    A web hook's address is read from `url_file` each time, since it may hold a secret."""

    to: Literal["log", "webhook", "command"]
    url_file: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """The content of a rules file; the farm is checked every `every_s` seconds."""

    rules: tuple[Rule, ...]
    deliveries: tuple[Delivery, ...]
    every_s: float = 30.0


def read_rules(path: Path) -> Rules:
    """Read a file of rules. Raises RulesError, which names the table and the key."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RulesError(f"{path} cannot be read: {error}") from None
    return parse_rules(data, path.name)


def parse_rules(data: Mapping[str, Any], file: str) -> Rules:
    """The rules that a TOML file's content says. Raises RulesError."""
    _known(data, {"every_s", "rule", "deliver"}, file)
    rules = tuple(_rule(table, f"{file}: [[rule]] {at}") for at, table in enumerate(_tables(data, "rule", file), 1))
    told = tuple(
        _delivery(table, f"{file}: [[deliver]] {at}") for at, table in enumerate(_tables(data, "deliver", file), 1)
    )
    if not rules:
        raise RulesError(f"{file} has no [[rule]]", hint='when = "box-gone" is one')
    if len({rule.name for rule in rules}) < len(rules):
        raise RulesError(f"{file}: two rules have one name", hint='give each a name = "..." of its own')
    return Rules(rules, told, _number(data, "every_s", 30.0, 1.0, 86400.0, file))


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    _known(table, _RULE_KEYS, where)
    when = table.get("when")
    if when not in list(When):
        raise RulesError(f"{where}: when = {when!r} is unknown", hint=f"there are {', '.join(When)}")
    return Rule(
        name=_text(table, "name", str(when), where),
        when=When(when),
        match=_text(table, "match", "*", where),
        for_s=_number(table, "for_s", 60.0, 1.0, 1e7, where),
        longer_than_s=_number(table, "longer_than_s", 600.0, 1.0, 1e7, where),
        factor=_number(table, "factor", 1.05, 1.0, 1e6, where),
        free_below=_number(table, "free_below", 0.05, 0.0, 1.0, where),
        path=_text(table, "path", "/", where),
    )


def _delivery(table: Mapping[str, Any], where: str) -> Delivery:
    _known(table, _DELIVER_KEYS, where)
    match table.get("to"):
        case "log":
            return Delivery("log")
        case "webhook":
            file = _text(table, "url_file", "", where)
            if not file:
                raise RulesError(f"{where} lacks url_file", hint="a file with the web hook's address alone")
            return Delivery("webhook", url_file=file)
        case "command":
            words = table.get("command")
            if not isinstance(words, list) or not words or not all(isinstance(w, str) and w for w in words):
                raise RulesError(f"{where}: command is a list of words", hint='command = ["/usr/local/bin/page"]')
            return Delivery("command", command=tuple(words[:_MOST]))
        case other:
            raise RulesError(f"{where}: to = {other!r} is unknown", hint="there are log, webhook, command")


def _tables(data: Mapping[str, Any], name: str, file: str) -> list[Mapping[str, Any]]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found) or len(found) > _MOST:
        raise RulesError(f"{file}: {name} is a list of at most {_MOST} tables", hint=f"begin each with [[{name}]]")
    return found


def _known(table: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(table) - known):
        raise RulesError(f"{where} has no {unknown[0]!r}", hint=f"there are {', '.join(sorted(known))}")


def _text(table: Mapping[str, Any], key: str, default: str, where: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        raise RulesError(f"{where}: {key} is text of at most {_LONGEST} characters")
    return value


def _number(table: Mapping[str, Any], key: str, default: float, low: float, high: float, where: str) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RulesError(f"{where}: {key} is a number of {low:g} to {high:g}, not {value!r}")
    return float(value)
