"""How long each test file takes, as measured, and the order that follows: what pytest-xdist is to hand out first.

Every run keeps what it measured in pytest's cache, which belongs to a machine and a checkout. What a clean clone
begins with is `tests/data/durations.json`; `make durations` writes it from the cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping

from tests.kit.places import ROOT, TESTS

SEED = TESTS / "data" / "durations.json"
CACHE = ROOT / ".pytest_cache" / "v" / "tunefarm" / "durations"
CACHE_KEY = "tunefarm/durations"
"""The value of pytest's cache that lies there."""

WAITING = ("e2e", "browser", "contract")
"""Folders whose tests mostly wait, for processes, for databases and for faults to be noticed."""

_UNKNOWN_S = {"e2e": 10.0, "browser": 10.0, "contract": 5.0}
"""A file nobody has measured is taken to last so long, those elsewhere a second."""


def seed() -> dict[str, float]:
    return _seconds(json.loads(SEED.read_text())) if SEED.exists() else {}


def known(cached: object) -> dict[str, float]:
    """Seconds of each file, by its path below tests/: the seed's, and over them what was measured here."""
    return seed() | _seconds(cached)


def _seconds(found: object) -> dict[str, float]:
    """Return the durations of a cache; none if it is damaged or of another version."""
    items = found.items() if isinstance(found, dict) else ()
    return {str(name): float(value) for name, value in items if isinstance(value, int | float)}


def ordered(names: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """The longest first, so that none of them is left running alone in the end. Files that wait take turns with files
    that compute, so that they overlap: both kinds are through by the same part of their time at any moment."""
    kinds: tuple[list[str], list[str]] = ([], [])
    for name in names:
        kinds[name.split("/")[0] in WAITING].append(name)
    turns: list[tuple[float, float, str]] = []
    for kind in kinds:
        kind.sort(key=lambda name: (-expected(name, seconds), name))
        whole = sum(expected(name, seconds) for name in kind) or 1.0
        before = 0.0
        for name in kind:
            turns.append((before / whole, -expected(name, seconds), name))
            before += expected(name, seconds)
    return [name for _, _, name in sorted(turns)]


def expected(name: str, seconds: Mapping[str, float]) -> float:
    return seconds.get(name, _UNKNOWN_S.get(name.split("/")[0], 1.0))


def merged(before: object, measured: Mapping[str, float]) -> dict[str, float]:
    """Return what to keep after a run: files that are gone are forgotten."""
    both = _seconds(before) | measured
    return {name: round(both[name], 2) for name in sorted(both) if (TESTS / name).exists()}


def main(words: list[str]) -> int:
    """Write the seed from what runs on this machine measured; or say how far it is from the files that are there."""
    before = seed()
    if words == ["--check"]:
        files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
        gone = len(before.keys() - files)
        print(f"{len(files & before.keys())} of {len(files)} test files are measured, {gone} measured are gone")
        return 0
    if not CACHE.exists():
        print(f"{CACHE.relative_to(ROOT)} is not there: run the tests first", file=sys.stderr)
        return 1
    kept = merged(before, _seconds(json.loads(CACHE.read_text())))
    lines = [f"  {json.dumps(name)}: {value:.1f}" for name, value in kept.items()]
    SEED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{SEED.relative_to(ROOT)}: {len(lines)} files, {sum(kept.values()):.0f} s of tests")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
