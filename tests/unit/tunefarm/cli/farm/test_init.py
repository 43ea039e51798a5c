"""`tunefarm farm init`, `rename` and `remove`, and quotas and scopes at the command line."""

from __future__ import annotations

import io
import json
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rpc_server.machine.user_name import user_name
from rpc_server.wire.keys import KeyRing
from tests.kit.cli.run import Outcome, run_cli
from tunefarm.settings import load
from tuner.records.model import NewDevice
from tuner.records.store import RecordStore

Typed = Callable[..., Outcome]


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(*words: str, code: int = 0) -> Outcome:
        outcome = run_cli(capfd, *words)
        assert outcome.code == code, outcome
        return outcome

    return run


INIT = ("farm", "init", "--yes", "--box", "box1", "--admin", "ann", "--user", user_name())


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_farm_from_nothing_and_again(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = typed(*INIT)
    farm = tmp_path / "farm"
    before = files(farm)
    assert all(not stat.S_IMODE(Path(path).stat().st_mode) & 0o077 for path in before)  # nobody else reads any of it
    roles = {p.name: str(p.role) for p in KeyRing(farm / "keys" / "tracker").authorized().values()}
    assert roles == {"web": "client", "ann": "admin", "box1": "box"}
    public = KeyRing(farm / "keys" / "tracker").identity()
    assert public is not None
    assert f"keys trust 127.0.0.1:9190 {public.public}" in made.out  # what a further box has to know
    assert KeyRing(farm / "keys" / "box").known() == {"127.0.0.1:9190": public.public}
    monkeypatch.setenv("TUNEFARM_CONFIG", str(farm / "admin.toml"))
    settings = load()
    assert settings.keys_folder == farm / "keys" / "admin"
    with RecordStore.open(settings.db) as store:
        token = store.tokens.find(settings.api_token)
        assert token is not None
        assert (token.name, str(token.role)) == ("ann", "admin")
    assert settings.api_token not in made.text
    again = json.loads(typed(*INIT, "--json").out)
    assert {step["state"] for step in again["steps"]} == {"kept"}
    assert files(farm) == before
    other = typed(*INIT, "--tracker-port", "9999")
    assert "differs systemd unit" in other.out
    assert "remove it" in other.err


def test_units_are_taken_by_systemd(typed: Typed, tmp_path: Path) -> None:
    typed(*INIT)
    units = sorted((tmp_path / "farm" / "units").iterdir())
    assert [unit.name for unit in units] == [
        "tunefarm-server.service",
        "tunefarm-tracker.service",
        "tunefarm-web.service",
    ]
    if (analyze := shutil.which("systemd-analyze")) is not None:
        command = [analyze, "verify", "--man=no", *map(str, units)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert not [line for line in done.stderr.splitlines() if "tunefarm-" in line], done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("farm", "init"), "no terminal to ask on"),
        (("farm", "init", "a b", "--yes"), "letters, digits"),
        (("farm", "init", "--yes", "--address", "a b"), "is no host"),
        (("farm", "init", "--yes", "--admin", "a b"), "letters, digits"),
        (("farm", "init", "--yes", "--admin", "web"), "the farm's own web has that name"),
        (("farm", "init", "--yes", "--admin", "box1", "--box", "box1"), "different names"),
    ],
)
def test_what_is_refused_makes_nothing(typed: Typed, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in typed(*words, "--user", user_name(), code=2).err
    assert not (tmp_path / "farm").exists()


def test_answers_are_asked_for_again(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person types; a wrong answer costs one question, not all of them."""
    typed_here = io.StringIO("a host\nlab.example\nweb\nann\ny\nbo/x\nbox1\n\n")
    monkeypatch.setattr(typed_here, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", typed_here)
    said = typed("farm", "init", "--user", user_name()).text
    for wrong in ("'a host' is no host", "the farm's own web has that name", "'bo/x': letters, digits"):
        assert said.count(wrong) == 1
    names = {name.name for name in KeyRing(tmp_path / "farm" / "keys" / "tracker").authorized().values()}
    assert names == {"web", "ann", "box1"}


def test_a_folder_with_other_things_is_left_alone(typed: Typed, tmp_path: Path) -> None:
    """Run by root, all of the folder would go to the services' account."""
    farm = tmp_path / "farm"
    farm.mkdir()
    (farm / "thesis.tex").write_text("…")
    assert "holds other things, such as thesis.tex" in typed(*INIT, code=1).err
    assert [path.name for path in farm.iterdir()] == ["thesis.tex"]


def test_a_password_is_in_no_file_that_others_read_nor_shown(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = f"sqlite:///{tmp_path}/x.db"
    shown = typed(*INIT, "--db", db).text
    units = "".join(path.read_text() for path in (tmp_path / "farm" / "units").iterdir())
    assert db not in units
    assert "EnvironmentFile=" in units
    monkeypatch.setenv("TUNEFARM_CONFIG", str(tmp_path / "farm" / "admin.toml"))
    token = load().api_token
    assert token
    assert token not in shown


def test_a_box_gets_another_name_and_leaves(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(*INIT)
    ring = KeyRing(tmp_path / "farm" / "keys" / "tracker")
    monkeypatch.setenv("TUNEFARM_KEYS", str(ring.folder))
    monkeypatch.setenv("TUNEFARM_DB", f"sqlite:///{tmp_path}/farm/tunefarm.db")
    with RecordStore.open(tmp_path / "farm" / "tunefarm.db") as store:
        store.devices.upsert(NewDevice(name="box1/0", key="cpu", device_class="zen", fingerprint={}))
    said = typed("farm", "rename", "box1", "rack2").out
    assert "on record: rack2/0" in said
    assert "--name rack2" in said
    assert "rack2" in {p.name for p in ring.authorized().values()}
    assert "already" in typed("farm", "rename", "rack2", "ann", code=1).err
    removed = typed("farm", "remove", "rack2", "--reason", "sold").out
    assert "may connect no more" in removed
    assert "rack2/0" in removed
    assert "know a box nobody" in typed("farm", "remove", "nobody", code=1).err


def test_quotas_and_tokens_say_what_they_are_for(typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUNEFARM_DB", f"sqlite:///{tmp_path}/records.db")
    assert "2 runs at the same time" in typed("quota", "set", "ann", "--runs", "2", "--device-hours", "5").out
    typed("quota", "set", "*", "--trials", "100")
    table = typed("quota", "list").out
    assert "0 of 5" in table
    assert "everyone else" in table
    assert {row["user"] for row in json.loads(typed("quota", "list", "--json").out)} == {"*", "ann"}
    assert "limits something" in typed("quota", "set", "bob", code=1).err
    typed("quota", "remove", "ann")
    typed("token", "new", "ci", "--release", "1", "--area", "best", "--area", "releases")
    assert "best, releases, release 1" in typed("token", "list").out
