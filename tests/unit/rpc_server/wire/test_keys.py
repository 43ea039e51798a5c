"""Key files: what they hold, what is refused, and that changes are seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rpc_server.errors import KeyFileError
from rpc_server.wire.curve import keys_for
from rpc_server.wire.keys import KeyRing, KeyRole, checked, from_curve, to_curve

OTHER = KeyRing  # a second ring in the same folder stands for another process


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys")


def test_an_identity_is_made_once(ring: KeyRing) -> None:
    assert ring.identity() is None
    made = ring.create_identity("box1")
    assert ring.identity() == made
    assert (ring.folder / "identity").stat().st_mode & 0o777 == 0o600
    assert ring.folder.stat().st_mode & 0o777 == 0o700
    assert made.secret not in repr(made)
    with pytest.raises(KeyFileError, match="exists already"):
        ring.create_identity("box1")
    assert ring.create_identity("box1", replace=True).public != made.public


def test_an_identity_others_can_read_is_refused(ring: KeyRing) -> None:
    ring.create_identity("box1")
    os.chmod(ring.folder / "identity", 0o640)
    with pytest.raises(KeyFileError, match="can be read by others") as error:
        ring.identity()
    assert "chmod 600" in str(error.value.hint)


@pytest.mark.parametrize("text", ["", "tfabc", "only two", "a b c"])
def test_a_damaged_identity(ring: KeyRing, text: str) -> None:
    ring.create_identity("box1")
    (ring.folder / "identity").write_text(text)
    with pytest.raises(KeyFileError):
        ring.identity()


def test_authorize_and_revoke_are_seen_by_others(ring: KeyRing) -> None:
    ann = KeyRing(ring.folder / "ann").create_identity("ann").public
    bob = KeyRing(ring.folder / "bob").create_identity("bob").public
    other = OTHER(ring.folder)
    assert other.authorized() == {}
    ring.authorize(ann, KeyRole.CLIENT, "ann")
    ring.authorize(bob, KeyRole.BOX, "bob")
    assert {p.name: p.role for p in other.authorized().values()} == {"ann": KeyRole.CLIENT, "bob": KeyRole.BOX}
    ring.authorize(ann, KeyRole.ADMIN, "ann")  # a key has one role
    assert other.authorized()[ann].role is KeyRole.ADMIN
    assert [p.name for p in ring.revoke("bob")] == ["bob"]
    assert set(other.authorized()) == {ann}
    ring.revoke(ann)
    assert other.authorized() == {}
    with pytest.raises(KeyFileError, match="no authorized key or name is 'bob'"):
        ring.revoke("bob")


def test_a_line_that_cannot_be_read_is_named(ring: KeyRing) -> None:
    public = ring.create_identity("x").public
    (ring.folder / "authorized").write_text(f"# people\nclient {public} ann  # her laptop\n\nguest {public} bob\n")
    with pytest.raises(KeyFileError, match=r"authorized, line 4: expected ROLE KEY NAME"):
        ring.authorized()
    (ring.folder / "known").write_text("127.0.0.1:9090\n")
    with pytest.raises(KeyFileError, match=r"known, line 1: expected HOST:PORT KEY"):
        ring.known()


def test_names_that_would_break_the_file(ring: KeyRing) -> None:
    public = ring.create_identity("x").public
    for name in ("", "two words", "a#b", "line\nbreak", "x" * 300):
        with pytest.raises(KeyFileError, match="cannot be a name"):
            ring.authorize(public, KeyRole.CLIENT, name)


def test_keys_are_texts_that_need_no_quotes(ring: KeyRing) -> None:
    public = ring.create_identity("x").public
    assert from_curve(to_curve(public)) == public
    assert len(public) == 45
    assert set(public) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "text", ["", "tf", "tf" + "A" * 42, "tf" + "A" * 44, "xx" + "A" * 43, "tf" + "+" * 43, "é" * 45]
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(KeyFileError, match="is no key"):
        checked(text)


def test_which_keys_a_connection_takes(ring: KeyRing) -> None:
    server = KeyRing(ring.folder / "s").create_identity("s").public
    assert keys_for(None, "h:1") is None
    assert keys_for(ring, "h:1") is None  # nothing is known of it: a connection without keys
    ring.trust("h:1", server)
    with pytest.raises(KeyFileError, match="this machine has none"):
        keys_for(ring, "h:1")
    ring.create_identity("me")
    found = keys_for(ring, "h:1")
    assert found is not None
    assert found.server == server
    assert keys_for(ring, "h:2") is None
    told = keys_for(ring, "h:2", server)
    assert told is not None
    assert told.server == server


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileError, match="cannot be"):
        KeyRing(tmp_path / "file" / "keys").create_identity("x")
