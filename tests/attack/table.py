"""Run every attack and print the table of docs/security.md with what came of each row: `make attack`.

With --quick only the tests that the table names are run, without the slow ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.places import ROOT

PAGE = ROOT / "docs" / "security.md"
_TEST = re.compile(r"`(test_\w+)`")


@dataclass(frozen=True)
class Attack:
    """A row: what was done, what it did before, what it does now, and the tests that show it."""

    attack: str
    before: str
    now: str
    tests: tuple[str, ...]


def named_tests(text: str) -> list[str]:
    """The tests that a text names, each once."""
    return list(dict.fromkeys(_TEST.findall(text)))


def attacks(page: str) -> list[Attack]:
    """The rows of the page's table of attacks."""
    part = page.split("\n## Attacks\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    found = []
    for line in lines:
        attack, before, now, tests = (cell.strip() for cell in line.strip("|").split(" | "))
        found.append(Attack(attack, before, now, tuple(named_tests(tests))))
    return found


def defined_in(folder: Path) -> dict[str, list[Path]]:
    """The files that define each test function."""
    found = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            found[name].append(path)
    return dict(found)


def outcome(tests: Sequence[str], results: Mapping[str, Sequence[str]]) -> str:
    """Return the outcome of a row's tests: "holds" where all passed."""
    said = [result for name in tests for result in results.get(name, ["not run"])]
    for worst in ("FAILED", "not run"):
        if worst in said:
            return worst
    return "skipped" if "skipped" in said and "passed" not in said else "holds"


def results_of(report: Path) -> dict[str, list[str]]:
    """The results of each test function in a report of pytest (JUnit XML)."""
    found = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in case}
        said = "FAILED" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        found[case.get("name", "").split("[")[0]].append(said)
    return dict(found)


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    rows = attacks(PAGE.read_text())
    places = defined_in(ROOT / "tests")
    named = [
        f"{path.relative_to(ROOT)}::{name}"
        for row in rows
        for name in row.tests
        for path in places[name][:1]
        if quick or "attack" not in path.parts
    ]
    run = [*dict.fromkeys(named)] if quick else ["tests/attack", *dict.fromkeys(named)]
    which = "not slow" if quick else "slow or not slow"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", which]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        ran = subprocess.run([*command, f"--junitxml={report}", *run], cwd=ROOT)
        results = results_of(report)
    width = max(len(row.attack) for row in rows)
    for row in rows:
        print(f"{row.attack:{width}}  before: {row.before}; now: {row.now}  [{outcome(row.tests, results)}]")
    held = sum(outcome(row.tests, results) == "holds" for row in rows)
    print(f"{held} of {len(rows)} attacks held; {sum(map(len, results.values()))} tests")
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
