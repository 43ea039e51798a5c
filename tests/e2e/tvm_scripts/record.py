"""Record what the programs print under Apache TVM: `python -m tests.e2e.tvm_scripts.record TVM_PYTHON [NAME ...]`.

TVM_PYTHON is the interpreter of an environment that has Apache TVM. Without names, every program is run that has no
output yet. What is kept is the oracle of `test_tvm_scripts.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUTPUTS = HERE / "outputs.json"


def programs() -> list[str]:
    return sorted(file.relative_to(HERE).as_posix() for file in HERE.glob("*/*.py"))


def main() -> int:
    python, *names = sys.argv[1:]
    kept = json.loads(OUTPUTS.read_text()) if OUTPUTS.exists() else {}
    asked = [python, "-W", "ignore", "-c", "import tvm; print(tvm.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-1]
    failed = []
    for name in names or [name for name in programs() if name not in kept]:
        done = subprocess.run([python, "-W", "ignore", HERE / name], capture_output=True, text=True, timeout=600)
        print(f"{name}: exit status {done.returncode}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr[-2000:])
        else:
            kept[name] = {"tvm": version, "lines": done.stdout.splitlines()}
            known = {key: kept[key] for key in sorted(kept) if (HERE / key).exists()}
            OUTPUTS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
