"""No command prints or records the password of the database, whether the command works or fails."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.kit.cli.run import run_cli
from tests.kit.records.runs import Lab
from tunefarm.cli.commands import COMMANDS
from tuner.records.db.passwords import shown_command, shown_text, without_password
from tuner.records.store import RecordStore

SECRET = "s3cret-w0rd"

_ARGUMENTS = {
    "db backup": ["copy.db"],
    "db restore": ["in.db"],
    "records merge": ["other.db"],
    "records export": ["out.jsonl"],
    "records import": ["in.jsonl"],
    "tune": ["matmul:8,8,8", "--trials", "1"],
    "best": ["matmul:8,8,8"],
    "bench run": ["--device", "127.0.0.1:1"],
    "web": ["--tracker", "127.0.0.1:1", "--port", "1"],
}
"""Arguments with which a command gets as far as its database; others get "1" for each argument."""


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that has a --db option, with its words."""

    def below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name, child in command.commands.items():
                yield from below(f"{words} {name}", child)
        elif any("--db" in option.opts for option in command.params):
            yield words, command

    for name, entry in COMMANDS.items():
        yield from below(name, entry.load())


FOUND = dict(_commands())


def _words(name: str) -> list[str]:
    known = _ARGUMENTS.get(name)
    if known is None:
        known = ["1" for p in FOUND[name].params if isinstance(p, click.Argument) and p.required]
    return [*name.split(), *known]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "in.jsonl").write_text("")


def test_the_commands_with_a_database_are_found() -> None:
    assert {"db check", "db upgrade", "db backup", "best", "runs", "tune", "web", "records merge"} <= set(FOUND)


@pytest.mark.parametrize("name", sorted(FOUND))
@pytest.mark.parametrize("how", ["flag", "setting"])
def test_a_server_that_does_not_answer(name: str, how: str, capfd, monkeypatch) -> None:
    address = f"postgresql://farm:{SECRET}@127.0.0.1:1/farm?sslpassword={SECRET}"
    words = _words(name)
    if how == "flag":
        words += ["--db", address]
    else:
        monkeypatch.setenv("TUNEFARM_DB", address)
    outcome = run_cli(capfd, *words)
    assert outcome.code != 0, outcome
    assert SECRET not in outcome.text


_LONG = {"tune", "web", "bench run"}  # these go on to devices; what they print of an address is tested above


@pytest.fixture(scope="module")
def database(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a run, to be copied."""
    file = tmp_path_factory.mktemp("database") / "records.db"
    shutil.copyfile(sqlite_template, file)
    with RecordStore.open(file) as store:
        Lab(store).whole_run()
    return file


@pytest.mark.parametrize("name", sorted(set(FOUND) - _LONG))
def test_a_database_that_is_there(name: str, database: Path, tmp_path, capfd) -> None:
    for file in ("records.db", "other.db"):
        shutil.copyfile(database, tmp_path / file)
    outcome = run_cli(capfd, *_words(name), "--db", f"sqlite://farm:{SECRET}@/records.db")
    assert "no record store" not in outcome.text
    assert "no database address" not in outcome.text
    assert SECRET not in outcome.text


def test_an_address_where_it_is_not_expected(capfd) -> None:
    outcome = run_cli(capfd, "db", "check", f"postgresql://farm:{SECRET}@db/farm")
    assert outcome.code == 2
    assert SECRET not in outcome.text
    assert "farm:***@db" in outcome.text


def test_the_command_that_is_recorded_with_a_run(tmp_path, capfd, monkeypatch) -> None:
    address = f"sqlite://farm:{SECRET}@/records.db"
    words = ["tune", "matmul:8,8,8", "--trials", "1", "--quiet", "--target", "llvm", "--db", address]
    monkeypatch.setattr(sys, "argv", ["tunefarm", *words])
    outcome = run_cli(capfd, *words)
    assert outcome.code == 0, outcome
    assert SECRET not in outcome.text
    with sqlite3.connect(tmp_path / "records.db") as connection:
        assert SECRET not in "\n".join(connection.iterdump())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://u:pw@h/d", "postgresql://u:***@h/d"),
        ("--db=postgresql+psycopg://u:p@w/x:y@h:5/d", "--db=postgresql+psycopg://u:***@h:5/d"),
        ("postgresql://u@h/d?password=pw&sslmode=require", "postgresql://u@h/d?password=***&sslmode=require"),
        ("http://u:pw@h:80/a@b", "http://u:***@h:80/a@b"),
        ("http://h:80/a@b", "http://h:80/a@b"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_what_is_hidden(given: str, shown: str) -> None:
    assert without_password(given) == shown
    assert shown_text(f"no {given}\nor this") == f"no {shown}\nor this"


def test_a_password_with_spaces_in_a_command() -> None:
    text = shown_command(["tunefarm", "runs", "--db", "postgresql://u:a b@h/d"])
    assert "a b" not in text
    assert "u:***@h/d" in text
