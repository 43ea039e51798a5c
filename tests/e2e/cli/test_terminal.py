"""The command line on a terminal: colours, a live display, and Ctrl-C, which reaches the whole process group."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.terminal_screen import Screen

# Makes its stdin the controlling terminal, then becomes the command.
_LAUNCH = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A command on a terminal of its own; `text` is what it showed so far."""

    def __init__(self, folder: Path, *args: str) -> None:
        self._ours, theirs = pty.openpty()
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TUNEFARM_") and k != "NO_COLOR"}
        environ |= {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", "XDG_CONFIG_HOME": str(folder)}
        command = [sys.executable, "-c", _LAUNCH, sys.executable, "-m", "tunefarm", *args]
        self.process = subprocess.Popen(command, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.text = ""

    def read_until(self, enough: Callable[[str], bool], patience: float = 300.0) -> None:
        deadline = time.monotonic() + patience
        while not enough(self.text):
            assert time.monotonic() < deadline, self.text
            if not select.select([self._ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the last process on the terminal ended
                return
            if not data:
                return
            self.text += data.decode(errors="replace")

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        self.read_until(lambda _text: False)
        return self.process.wait(300)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path):
    opened: list[Terminal] = []

    def open_one(*args: str) -> Terminal:
        opened.append(Terminal(tmp_path, *args))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_errors_have_colour_on_a_terminal(terminal):
    shown = terminal("runs")
    assert shown.end() == 1
    assert "\x1b[31m\x1b[1merror: \x1b[0mthere is no database" in shown.text


@pytest.mark.parametrize("trials", [0, 2])
def test_ctrl_c_while_tuning_leaves_a_clean_screen_and_a_command(terminal, trials):
    tuner = terminal("tune", "matmul:32,32,32", "--trials", "400")
    # 0 of 400: build workers are still starting, and the terminal's Ctrl-C reaches them too
    tuner.read_until(lambda text: any(int(done) >= trials for done in re.findall(r"(\d+)/400", text)))
    tuner.press(b"\x03")
    assert tuner.end() == 130
    assert "Traceback" not in tuner.text
    assert "Go on with: tunefarm tune --resume 1" in tuner.text
    screen = Screen(80)
    screen.feed(tuner.text)
    assert screen.cursor_shown
    assert screen.wrapped == 0
