"""A user at a terminal of 80 columns: commands are typed one after the other, and what is seen is kept."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.kit.cli.farm import CliFarm, cli_farm

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
