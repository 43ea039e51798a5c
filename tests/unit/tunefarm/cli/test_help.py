"""The command line's own description."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest

from tests.kit.cli.run import run_cli
from tunefarm.cli.commands import COMMANDS
from tunefarm.cli.common import Cores, Size
from tunefarm.version import __version__


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(capfd, name):
    outcome = run_cli(capfd, name, "--help")
    assert outcome.code == 0
    assert "Example" in outcome.out or "step by step" in outcome.out
    assert f"tunefarm {name}" in outcome.out


def test_lists_of_subcommands_are_not_cut_short(capfd):
    for name in ("bench", "db", "keys", "cost-model", "records", "release", "token"):
        assert "...\n" not in run_cli(capfd, name, "--help").out.partition("Commands:")[2], name


def test_the_subcommands_of_groups(capfd):
    loaded = {name: command.load() for name, command in COMMANDS.items()}
    groups = {name: command.commands for name, command in loaded.items() if isinstance(command, click.Group)}
    for group, name in ((group, name) for group, commands in groups.items() for name in commands):
        outcome = run_cli(capfd, group, name, "--help")
        assert outcome.code == 0
        assert "Example" in outcome.out, name
        assert f"tunefarm {group} {name}" in outcome.out


def test_the_list_names_every_command_without_loading_one():
    code = (
        "import sys; from tunefarm.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'llvmlite', 'sqlalchemy', 'zmq', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([\w-]+) {2,}[A-Z]", done.stdout.partition("Start here:")[2], re.MULTILINE)
    assert listed[: len(COMMANDS)] == list(COMMANDS)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_line_in_the_list_is_a_sentence(name):
    command = COMMANDS[name].load()
    assert isinstance(command, click.Command)
    assert command.name == name
    assert re.fullmatch(r"[A-Z].*\.", COMMANDS[name].summary)


def test_version(capfd):
    outcome = run_cli(capfd, "--version")
    assert outcome.code == 0
    assert outcome.out == f"tunefarm, version {__version__}\n"


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("8GiB", 8 << 30), ("512M", 512 << 20), ("1.5k", 1536), (" 2 tb ", 2 << 40)]
)
def test_sizes(text, size):
    assert Size().convert(text, None, None) == size


def test_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2, 3, 8})
    assert Cores().convert("0-2,8", None, None) == (0, 1, 2, 8)
    assert Cores().convert("3, 3,1", None, None) == (1, 3)
    with pytest.raises(click.BadParameter, match=r"no core 4 .* there are 0-3, 8"):
        Cores().convert("2-5", None, None)


def test_a_policy_is_chosen_by_its_documented_name():
    chosen = COMMANDS["tune"].load().make_context("tune", ["matmul:8,8,8", "--scheduler", "round-robin"])
    assert chosen.params["scheduler"] == "round-robin"
