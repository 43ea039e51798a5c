"""Run ONNX's node suite through the backend: `make conformance`.

    python -m tests.conformance [--share N] [--jobs N] [--networks] [NAME ...]

The whole suite writes docs/onnx-conformance.md, then runs the networks of data/light, which --networks does alone. A
share, or named cases, are only compared with the page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.cases import read
from tests.conformance.networks import PARAMETERS, compared
from tests.conformance.page import GOALS, NETWORKS, PAGE, listed, networks_page, page, scores
from tests.conformance.suite import Outcome, run
from tests.kit.places import ROOT, python_path

TOLERANCE = 1e-4
"""How far a network's result may be from onnxruntime's, relative to the largest."""
_MAKE = "import sys; from tests.conformance.cases import cases_file; print(cases_file(int(sys.argv[1])))"


def made_cases(share: int) -> Path:
    """The file of one in `share` cases, made by a process that may import the reference."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-W", "ignore", "-c", _MAKE, str(share)]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True, env=environment)
    return Path(done.stdout.split()[-1])


def unlike_page(outcomes: Sequence[Outcome], text: str) -> list[str]:
    """List outcomes of cases that the page tells otherwise."""
    missed, needing = listed(text, "Misses"), listed(text, "Cases that need values")
    found = []
    for o in outcomes:
        if o.passed != (o.name not in missed):
            found.append(f"{o.name}: {o.why or 'it passes, but the page lists it as a miss'}")
        elif o.passed and bool(o.needs_values) != (o.name in needing):
            found.append(f"{o.name}: {o.needs_values or 'it needs no values now'}")
    return found


def run_networks() -> list[str]:
    """Run the networks and write their page. Returns what does not agree with onnxruntime."""
    found = []
    for name in PARAMETERS:
        found.append(compared(name))
        print(f"{name}: {found[-1].difference:.1e} from onnxruntime", flush=True)
    NETWORKS.write_text(networks_page(found))
    return [f"{a.name}: {a.difference:.1e} from onnxruntime" for a in found if not a.difference <= TOLERANCE]


def main(argv: Sequence[str]) -> int:
    """Run the suite, or part of it. Returns 1 where something is worse than the page or the goals say."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--share", type=int, default=1, help="run one in N cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--networks", action="store_true", help="run only the networks of data/light")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args(argv)
    if asked.networks:
        return _told(run_networks())
    path = made_cases(1 if asked.names else asked.share)
    cases = [case for case in read(path) if not asked.names or case.name in asked.names]

    def tell(outcome: Outcome) -> None:
        if not outcome.passed or asked.names:
            print(f"{outcome.name}: {outcome.stage or 'passes'} {outcome.why or outcome.needs_values}", flush=True)

    outcomes = run(path, [case.name for case in cases], asked.jobs, tell)
    failed = [f"{o.name}: {o.why}" for o in outcomes if o.wrong or o.stage == "crash"]
    if asked.names or asked.share > 1:
        failed += unlike_page(outcomes, PAGE.read_text())
    else:
        by_name = {o.name: o for o in outcomes}
        PAGE.write_text(page(cases, by_name))
        found = scores(cases, by_name)
        print(f"compiled once {found[0]:.1f} % (goal {GOALS[0]} %), recompiled {found[1]:.1f} % (goal {GOALS[1]} %)")
        failed += ["a score is below its goal"] if any(a < b for a, b in zip(found, GOALS)) else []
    print(f"{len(outcomes)} cases, {sum(o.cpu for o in outcomes):.0f} s of processor time")
    if asked.share == 1 and not asked.names:
        failed += run_networks()
    return _told(failed)


def _told(failed: Sequence[str]) -> int:
    for line in failed:
        print(f"FAILED {line}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
