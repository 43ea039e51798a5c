"""The tutorial, typed as its page says, with fewer trials: `python -m tests.e2e.afternoons.tutorial [TRIALS]`.

Services get ports of their own instead of the default ones, and `--cores` that this machine has.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.kit.cli.farm import CliFarm, cli_farm, until
from tests.kit.docs_pages import Block, blocks
from tests.kit.places import DOCS, python_path
from tracker.client import connect_tracker

PAGE = DOCS / "tutorial.md"
TRACKER, WEB = "9190", "9180"
DEFAULT_PORTS = {"tracker": TRACKER, "server": "9091", "web": WEB}


def commands(block: Block) -> list[str]:
    """Return the commands of a console block."""
    return [line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ ")]


class Reader:
    """Someone who types what the page says."""

    def __init__(self, farm: CliFarm, trials: int) -> None:
        self._farm, self._trials = farm, trials
        self._ports: dict[str, int] = {}
        self._servers = 0
        self._taken: set[str] = set()
        farm.environ["PYTHONPATH"] = python_path()

    def follow(self, page: Path) -> None:
        for block in blocks(page):
            if block.words == ("console", "run"):
                for line in commands(block):
                    self._run(line)
            elif block.words == ("console", "service"):
                for line in commands(block):
                    self._serve(line)
            elif block.words == ("python",):
                self._python(["-c", block.code], block.code)

    def look(self) -> None:
        """Open the pages that the tutorial names."""
        for path in ("/", "/runs"):
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[WEB]}{path}") as page:
                assert page.status == 200, path

    def _run(self, line: str) -> None:
        if line.startswith("python "):
            self._python(shlex.split(line)[1:], line)
            return
        words = shlex.split(re.sub(r"--trials \d+", f"--trials {self._trials}", self._here(line)))
        began = time.monotonic()
        done = self._farm.run(*words[1:])
        print(f"$ {shlex.join(words)}\n{done.stdout}{done.stderr}({time.monotonic() - began:.1f} s)", flush=True)

    def _serve(self, line: str) -> None:
        words = shlex.split(self._here(line))[1:]
        given = shlex.split(line)
        port = given[given.index("--port") + 1] if "--port" in given else DEFAULT_PORTS[words[0]]
        assert port not in self._taken, f"{line}: another service of the page has port {port}"  # here all get free ones
        self._taken.add(port)
        print(f"$ tunefarm {shlex.join(words)} &", flush=True)
        name = words[0]
        if name == "server":
            self._servers += 1
            name = f"server-{self._servers}"
        _, listens = self._farm.serve(name, *words)
        match words[0]:
            case "tracker":
                self._ports[TRACKER] = listens
                self._farm.environ["TUNEFARM_TRACKER"] = f"127.0.0.1:{listens}"
            case "web":
                self._ports[WEB] = listens
                self._farm.environ["TUNEFARM_API"] = f"http://127.0.0.1:{listens}"
            case "server":
                with connect_tracker("127.0.0.1", self._ports[TRACKER]) as session:
                    until(lambda: len(session.devices()) >= self._servers)

    def _here(self, line: str) -> str:
        """The line with this farm's ports and this machine's cores."""
        for port, here in self._ports.items():
            line = line.replace(port, str(here))
        cores = sorted(os.sched_getaffinity(0))
        return re.sub(r"--cores (\d+)", lambda found: f"--cores {cores[int(found[1]) % len(cores)]}", line)

    def _python(self, words: list[str], shown: str) -> None:
        print(f"$ {shown}", flush=True)
        subprocess.run([sys.executable, *words], cwd=self._farm.folder, env=self._farm.environ, check=True)


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    folder = Path(tempfile.mkdtemp(prefix="tunefarm-tutorial-"))
    folder.chmod(0o755)
    began = time.monotonic()
    try:
        with cli_farm(folder) as farm:
            farm.environ["TUNEFARM_DB"] = f"sqlite:///{folder / 'tunefarm.db'}"
            reader = Reader(farm, trials)
            reader.follow(PAGE)
            reader.look()
    finally:
        shutil.rmtree(folder)
    print(f"the tutorial took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
