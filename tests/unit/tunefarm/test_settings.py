"""Settings: precedence, errors, and the page that documents them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.kit.places import DOCS
from tunefarm import settings
from tunefarm.settings import Settings, SettingsError, load

PAGE = DOCS / "settings.md"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_flag_beats_environment_beats_file_beats_default(tmp_path):
    assert load(environ={}).tracker == "127.0.0.1:9190"
    (tmp_path / "tunefarm.toml").write_text('tracker = "file:1"\ndb = "sqlite:///file.db"\n')
    assert load(environ={}).tracker == "file:1"
    environ = {"TUNEFARM_TRACKER": "env:2"}
    assert load(environ=environ).tracker == "env:2"
    assert load({"tracker": "flag:3"}, environ).tracker == "flag:3"
    assert load({"tracker": None}, environ).tracker == "env:2"
    assert load(environ=environ).db == "sqlite:///file.db"


@pytest.mark.parametrize(("text", "value"), [("1", True), ("yes", True), ("False", False), ("0", False)])
def test_booleans(text, value):
    assert load(environ={"TUNEFARM_INSECURE": text}).insecure is value


def test_a_wrong_type_names_the_variable():
    with pytest.raises(SettingsError, match=r"TUNEFARM_INSECURE.*true or false.*'perhaps'"):
        load(environ={"TUNEFARM_INSECURE": "perhaps"})


def test_a_log_level_is_one_of_four():
    with pytest.raises(SettingsError, match=r"TUNEFARM_LOG_LEVEL.*debug, info, warning, error.*'loud'"):
        load(environ={"TUNEFARM_LOG_LEVEL": "loud"})


def test_a_number_in_the_file_is_not_taken_for_a_string(tmp_path):
    (tmp_path / "tunefarm.toml").write_text("tracker = 9190\n")
    with pytest.raises(SettingsError, match=r"tunefarm\.toml: tracker must be a string, not 9190"):
        load(environ={})


def test_an_explicit_file_that_is_missing_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNEFARM_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        load(environ={})
    monkeypatch.setenv("TUNEFARM_CONFIG", "")  # as not set
    load()


def test_an_unknown_name_in_the_file_is_refused(tmp_path):
    (tmp_path / "tunefarm.toml").write_text("trackr = 'x'\n")
    with pytest.raises(SettingsError, match="trackr") as caught:
        load(environ={})
    assert "tracker" in str(caught.value.hint)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "tunefarm.toml").write_text("tracker = \n")
    with pytest.raises(SettingsError, match=r"tunefarm\.toml"):
        load(environ={})


@pytest.mark.parametrize("field", fields(Settings), ids=lambda f: f.name)
def test_the_docs_name_every_setting(field):
    row = next((line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{field.name}`")), None)
    assert row is not None, f"docs/settings.md does not document {field.name}"
    assert f"`{settings.variable(field.name)}`" in row
    shown = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    assert f"`{shown}`" in row
