"""The documentation names everything a user can set, type or meet, and its commands and links are right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.cli.run import can_be_typed
from tests.kit.docs_pages import PAGES, ROOT, blocks, section
from tracker.farm_parts import DeviceState
from tunefarm.cli.commands import COMMANDS, cli
from tunefarm.cli.farm.services import _device_table
from tuner.records.model import RunState
from tuner.search.registry import STRATEGIES
from tuner.workloads import OPERATORS

DOCS = ROOT / "docs"


def commands() -> list[tuple[str, click.Command]]:
    """Every command that can be typed, by its words."""
    found: list[tuple[str, click.Command]] = []
    for name, entry in COMMANDS.items():
        command = entry.load()
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
        else:
            found.append((name, command))
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_flag_has_a_row_under_its_command(name, command):
    heading = f"{'###' if ' ' in name else '##'} tunefarm {name}"
    text = section(DOCS / "cli.md", heading)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert any(re.search(rf"^\| `{flag}[ `]", text, re.MULTILINE) for flag in option.opts), option.opts[0]
    documented = re.findall(r"^\| `(--[\w-]+)", text, re.MULTILINE)
    known = {flag for option in command.params for flag in option.opts}
    assert set(documented) <= known, "the page names flags that are not there"


def test_every_flag_of_the_command_itself_is_documented():
    text = (DOCS / "cli.md").read_text()
    for option in cli.params:
        assert f"`{option.opts[0]}" in text


def test_every_operator_failure_state_and_strategy_is_documented():
    tuning, farm = (DOCS / "tuning.md").read_text(), (DOCS / "farm.md").read_text()
    for operator in OPERATORS:
        assert f"| `{operator}` |" in tuning
    for kind in FailureKind:
        assert f"| `{kind}` |" in tuning
    for name in (*RunState, *STRATEGIES):
        assert f"`{name}`" in tuning.replace("--strategy ", "")
    for state in DeviceState:
        assert f"| `{state}` |" in farm


def typed_commands(page: Path) -> list[tuple[int, str]]:
    """Lines of console blocks that type `tunefarm ...`, with their line numbers."""
    found = []
    for block in blocks(page):
        if block.words[:1] == ("console",):
            for number, line in enumerate(block.code.splitlines(), block.line):
                if line.startswith("$ tunefarm"):
                    found.append((number, line.removeprefix("$ ")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_commands_a_page_shows_can_be_typed(page, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(64)))
    for number, line in typed_commands(page):
        words = shlex.split(line)[1:]
        try:
            can_be_typed(words)
        except click.UsageError as error:
            pytest.fail(f"{page.name}:{number}: {line}: {error.message}")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)  # calls in code look like links
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


def test_the_index_names_every_page():
    text = (DOCS / "index.md").read_text()
    for page in DOCS.glob("*.md"):
        if page.name != "index.md":
            assert f"({page.name})" in text


def test_the_sample_table_of_devices_has_the_commands_columns():
    [head] = [line for line in (DOCS / "farm.md").read_text().splitlines() if line.startswith("│ device")]
    assert [name.strip() for name in head.strip("│").split("│")] == [str(c.header) for c in _device_table([]).columns]
