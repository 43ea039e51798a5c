"""Run every target of the Makefile that is not part of `make test`, each in its shortest form: `make shortest`.

A target that CI does not run breaks unseen. A new one needs a line in TARGETS, or in APART with the reason.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"

TARGETS = {
    "demo": "TRIALS=4",
    "fuzz": "CASES=10 FRAMES=100 SEED=1 STEPS=1000",
    "attack": "QUICK=1",
    "conformance": "SHARE=100",
    "soak": "TIME=3 KILLS=4 ATTACK=1",
    "afternoons": "TRIALS=3",
    "tutorial": "TRIALS=1",
    "docs": "",
    "bench": "QUICK=1",
    "models": "ONLY=squeezenet1_1",
    "durations": "CHECK=1",
    "gpu-pack": f"QUICK=1 PACK_PYTHON={HERE}",
    "gpu": f"SHORTEST=1 PYTHON={sys.executable}",  # after gpu-pack, whose folder it installs from
}
"""The commands, with their arguments. They run in this order."""

APART = {
    "help": "prints this file's targets",
    "setup": "every target begins with it",
    "lint": "part of make test",
    "test": "what CI runs before",
    "test-models": "what CI runs after, whole",
    "shortest": "this",
    "clean": "removes the virtual environment that CI runs in",
}


def documented() -> list[str]:
    """The Makefile's targets for people: those with a comment that `make help` shows."""
    return re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)


def main() -> int:
    failed, rows = [], []
    for target, given in TARGETS.items():
        command = ["make", "--no-print-directory", target, *shlex.split(given)]
        print(f"\n== {shlex.join(command)}", flush=True)
        start = time.monotonic()
        status = subprocess.run(command, cwd=ROOT).returncode
        rows.append(f"{target:12} {time.monotonic() - start:6.1f} s" + (f"  exit status {status}" if status else ""))
        failed += [target] if status else []
    print("\n" + "\n".join(rows))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
