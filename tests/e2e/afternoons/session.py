"""A user at a terminal of 80 columns: commands are typed one after the other, and what is seen is kept."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.kit.cli.farm import CliFarm, cli_farm
from tests.kit.places import ROOT, python_path

WIDTH = 80


class Terminal:
    """Types `tunefarm` commands in a folder. `seen` is all that was shown; tables fit the terminal."""

    def __init__(self, farm: CliFarm, echo: bool) -> None:
        self.farm, self._echo = farm, echo
        self.seen = ""
        farm.environ |= {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "dumb"}  # tables as on a terminal

    @property
    def folder(self) -> Path:
        return self.farm.folder

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self._show(f"$ cat > {name}\n{text}")

    def type(self, line: str, code: int = 0) -> str:
        """Type a command; what it printed. Raises AssertionError for another exit status."""
        done = self.farm.run(*shlex.split(line), code=code)
        said = done.stdout + done.stderr
        self._show(f"$ tunefarm {line}\n{said}")
        wide = [row for row in done.stdout.splitlines() if ("│" in row or "  " in row.strip()) and len(row) > WIDTH]
        assert not wide, f"a table is wider than the terminal: {wide[0]}"
        assert not any("…" in row for row in done.stdout.splitlines()), "a table cuts a cell"
        return said

    def workflow(self, file: str, **values: str) -> None:
        """Carry out the script of a GitLab workflow file, with `tunefarm` as it is here, and these variables."""
        own = self.folder / "bin"
        own.mkdir(exist_ok=True)
        command = own / "tunefarm"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tunefarm "$@"\n')
        command.chmod(0o755)
        [job] = yaml.safe_load((ROOT / "deploy" / "ci" / file).read_text()).values()
        lines = [line for line in job["script"] if not line.startswith("pip install")]
        paths = {"PATH": f"{own}:{self.farm.environ['PATH']}", "PYTHONPATH": python_path()}
        environ = (
            self.farm.environ | paths | job["variables"] | values | {"TUNEFARM_API": self.farm.environ["TUNEFARM_API"]}
        )
        script = "\n".join(["set -eo pipefail", *lines])
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=environ, capture_output=True, text=True)
        self._show(f"$ # deploy/ci/{file}\n" + "".join(f"$ {line}\n" for line in lines) + done.stdout + done.stderr)
        assert done.returncode == 0, done.stderr

    def serve(self, name: str, line: str, port: int = 0) -> int:
        """Start a service; its port."""
        self._show(f"$ tunefarm {line} &\n")
        _, port = self.farm.serve(name, *shlex.split(line), port=port)
        return port

    def _show(self, text: str) -> None:
        self.seen += text
        if self._echo:
            print(text, end="" if text.endswith("\n") else "\n", flush=True)


def afternoon(spend: Callable[[Terminal, int], None], trials: int) -> None:
    """Spend an afternoon in a new folder, shown on the terminal."""
    folder = Path(tempfile.mkdtemp(prefix="tunefarm-afternoon-"))
    folder.chmod(0o755)
    try:
        with cli_farm(folder) as farm:
            spend(Terminal(farm, echo=True), trials)
    finally:
        shutil.rmtree(folder)
