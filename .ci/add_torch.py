"""Add to this environment what `make test-models` needs: torch's build for CPUs, and the libraries of models.

    python .ci/add_torch.py

The extra "test-models" of pyproject.toml names them. pip looks at PyTorch's index of builds for CPUs beside the ones
that it is configured with, and takes a build for CPUs where it finds one. A build for CUDA is refused before it is
downloaded: it takes gigabytes, and no test needs it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INDEX = "https://download.pytorch.org/whl/cpu"
_CUDA = re.compile(r"nvidia[-_.].*|cuda[-_.].*|triton|pycuda", re.IGNORECASE)


def requirements() -> list[str]:
    """Return the packages that the extra names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: list[str] = project["optional-dependencies"]["test-models"]
    return found


def pip(*words: str) -> None:
    """Run pip with the index beside others. An index that does not answer is passed over."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    subprocess.run([*command, "--extra-index-url", INDEX, *words], check=True)


def cuda_packages(report: dict[str, Any]) -> list[str]:
    """The packages for CUDA that an installation would add: libraries of it, and torch where it asks for them."""
    found = []
    for item in report["install"]:
        data = item["metadata"]
        needs = [need for need in data.get("requires_dist", ()) if _CUDA.match(need)]
        if _CUDA.fullmatch(data["name"]) or (data["name"] == "torch" and needs):
            found.append(f"{data['name']} {data['version']}")
    return found


def main() -> int:
    wanted = requirements()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip("--dry-run", "--report", str(report), *wanted)
        found = cuda_packages(json.loads(report.read_text()))
    if found:
        print(f"builds for CUDA would be installed: {', '.join(found)}; wanted is {INDEX}", file=sys.stderr)
        return 1
    pip(*wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
