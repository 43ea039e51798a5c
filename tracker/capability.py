"""Capability expressions: what a client asks of a device, as text, and what a device says it has.

    cpu                              the key `cpu`, or the tag `cpu`
    sm_90 memory>=80GiB              a key or tag, and an attribute
    arch=znver3|znver4, cores>=8     one of two values, and a number
    device=box1:9091/0               exactly that device
    *                                any device

Terms are joined by spaces, commas or `&`, and all of them must hold. A comparison is `=`, `!=`, `>=`,
`<=`, `>` or `<`. A value may list alternatives with `|`, may hold `*` wild cards, and is quoted when it
has spaces in it: `cpu_model="AMD EPYC 7B13"`. Numbers take KiB, MiB, GiB, TiB, KB, MB, GB, TB.

Parsing gives a frozen `Predicate`; matching is a pure function of it and a frozen `Capabilities`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import assert_never

from compiler.errors import TunefarmError
from rpc_server.wire.tracker_records import Attribute

MAX_TEXT = 1024
"""Longest expression taken, in characters."""

MAX_TERMS = 32

_NOMINAL = 0.95
"""`memory>=N` is met by a device with this share of N: firmware and drivers keep a part of it."""

_UNITS = {
    "": 1,
    "k": 1000,
    "kb": 1000,
    "m": 1000**2,
    "mb": 1000**2,
    "g": 1000**3,
    "gb": 1000**3,
    "t": 1000**4,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}

_TERM = re.compile(
    r"""(?P<name>[A-Za-z_][\w.-]*) \s* (?P<op>>=|<=|!=|==|=|>|<) \s*
        (?: "(?P<quoted>[^"]*)" | (?P<value>[^\s,&"<>=!]+) )
      | (?P<word>[\w.:/@+*-]+)""",
    re.VERBOSE,
)
_WORD = re.compile(r"[\w.:/@+-]{1,128}")
_GAP = re.compile(r"[\s,&]*")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")


_GPU_VARIANT = re.compile(r"(sm_\d+)[af]")
"""sm_90a is sm_90 with instructions of its own, and runs what is built for sm_90."""


class CapabilityError(TunefarmError, ValueError, kind="capability"):
    """An expression that does not parse."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The attributes of one device. Equal values make one device class, however many devices have them."""

    key: str
    tags: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, Attribute], ...] = ()

    @staticmethod
    def of(key: str, tags: tuple[str, ...] = (), attributes: Mapping[str, Attribute] | None = None) -> Capabilities:
        return Capabilities(key, frozenset(tags), tuple(sorted((attributes or {}).items())))


@dataclass(frozen=True, slots=True)
class RequiredTag:
    """A bare word: the device's key, or one of its tags."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Compare:
    """`name op value`. `choices` are the alternatives; more than one only with `=` and `!=`."""

    name: str
    op: str
    choices: tuple[str, ...]

    def __str__(self) -> str:
        text = "|".join(self.choices)
        return f'{self.name}{self.op}"{text}"' if re.search(r"[\s,&<>=!]", text) else f"{self.name}{self.op}{text}"


Term = RequiredTag | Compare


@dataclass(frozen=True, slots=True)
class Predicate:
    """All of `terms` hold, and the device is one of `devices` if that is given.

    Two expressions that differ only in the order or spacing of their terms are equal.
    """

    terms: tuple[Term, ...]
    devices: frozenset[str] | None = None

    def __str__(self) -> str:
        named = ["device=" + "|".join(sorted(self.devices))] if self.devices is not None else []
        return " ".join([*map(str, self.terms), *named]) or "*"

    def matches(self, caps: Capabilities) -> bool:
        """Whether a device with these capabilities will do, `devices` apart."""
        return all(_holds(term, caps) for term in self.terms)

    def admits(self, device: str) -> bool:
        """Whether `devices` leaves this device in."""
        return self.devices is None or device in self.devices


@lru_cache(maxsize=1024)
def parse_capability(text: str) -> Predicate:
    """Parse an expression.

    Raises:
        CapabilityError: it is empty, too long, or something in it is no term; the message shows where.
    """
    if len(text) > MAX_TEXT:
        raise CapabilityError(f"capability expression of {len(text)} characters; at most {MAX_TEXT} are taken")
    terms: set[Term] = set()
    devices: frozenset[str] | None = None
    count = 0
    position = _skip(text, 0)
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None:
            raise _bad(text, position, "is no term")
        count += 1
        position = _skip(text, found.end())
        if (word := found["word"]) is not None:
            if word != "*":
                terms.add(RequiredTag(word))
            continue
        compare = _compare(text, found)
        if compare.name == "device":
            if compare.op != "=":
                raise _bad(text, found.start(), "must be `device=ID`")
            named = frozenset(compare.choices)
            devices = named if devices is None else devices & named
        else:
            terms.add(compare)
    if not count:
        raise CapabilityError("empty capability expression", hint="name a key such as `cpu`, or `*` for any device")
    if count > MAX_TERMS:
        raise CapabilityError(f"capability expression with {count} terms; at most {MAX_TERMS} are taken")
    return Predicate(tuple(sorted(terms, key=str)), devices)


def _compare(text: str, found: re.Match[str]) -> Compare:
    op = "=" if found["op"] == "==" else found["op"]
    raw = found["quoted"] if found["quoted"] is not None else found["value"]
    choices = tuple(dict.fromkeys(raw.split("|")))
    if "" in choices:
        raise _bad(text, found.start(), "has an empty value")
    if op not in ("=", "!="):
        if len(choices) > 1:
            raise _bad(text, found.start(), f"lists alternatives, which `{op}` does not take")
        if parse_number(choices[0]) is None:
            raise _bad(text, found.start(), "compares with something that is no number")
    return Compare(found["name"], op, choices)


def _skip(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _bad(text: str, position: int, what: str) -> CapabilityError:
    term = text[position:].split()[0]
    hint = "write terms such as `cpu`, `arch=sm_90`, `memory>=8GiB`, `cores>=8`, joined by spaces"
    if term.startswith("|"):
        hint = (
            "`|` stands between values, as in `arch=znver3|znver4`; for one of two keys, give their boxes a common tag"
        )
    return CapabilityError(f"capability expression {text!r}: {term!r} at column {position + 1} {what}", hint=hint)


def is_word(text: str) -> bool:
    """Whether a key or tag can be asked for as a bare word: letters, digits and `_.:/@+-`."""
    return _WORD.fullmatch(text) is not None


def parse_number(text: str) -> float | None:
    """A number with an optional size unit (`8`, `2.5`, `80GiB`), or None if it is none."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    unit = _UNITS.get(found[2].lower())
    return None if unit is None else float(found[1]) * unit


def _holds(term: Term, caps: Capabilities) -> bool:
    match term:
        case RequiredTag(text):
            return text == caps.key or text in caps.tags
        case Compare("key", op, choices):
            return any(fnmatchcase(caps.key, choice) for choice in choices) == (op == "=")
        case Compare("tag", op, choices):
            return any(fnmatchcase(tag, choice) for tag in caps.tags for choice in choices) == (op == "=")
        case Compare(name, op, choices):
            return _attribute_holds(name, op, choices, dict(caps.attributes).get(name))
        case _:
            assert_never(term)


def _attribute_holds(name: str, op: str, choices: tuple[str, ...], have: Attribute | None) -> bool:
    if name == "arch" and isinstance(have, str):
        have = tuple(dict.fromkeys((have, _GPU_VARIANT.sub(r"\1", have))))
    if op in ("=", "!="):
        return (have is not None and any(_equal(have, choice) for choice in choices)) == (op == "=")
    want = parse_number(choices[0])
    if want is None or not isinstance(have, int | float):
        return False
    if op == ">=" and name == "memory":
        want *= _NOMINAL
    return {">=": have >= want, "<=": have <= want, ">": have > want, "<": have < want}[op]


def _equal(have: Attribute, choice: str) -> bool:
    if isinstance(have, tuple):
        return any(fnmatchcase(item, choice) for item in have)
    if isinstance(have, str):
        return fnmatchcase(have, choice)
    return parse_number(choice) == have
