"""A kernel's files on disk do not end the server: neither their depth, nor their rights, nor being undeletable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rpc_server.box import removal
from rpc_server.box.folders import ServerFolder, disk_usage
from rpc_server.box.removal import Remover, remove_tree


def nest(folder: Path, depth: int, mode: int = 0o700) -> None:
    """Folders in folders, far deeper than a path may be long, with a file in each."""
    at = os.open(folder, os.O_RDONLY)
    for number in range(depth):
        with open(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=at), "w") as file:
            file.write("x")
        os.mkdir("d", 0o700, dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.fchmod(at, mode)
        os.close(at)
        at = below
    os.close(at)


def test_nested_deeper_than_the_stack(tmp_path):
    folder = tmp_path / "session"
    folder.mkdir()
    nest(folder, 1500)
    assert remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_without_rights(tmp_path):
    folder = tmp_path / "session"
    folder.mkdir()
    nest(folder, 50, mode=0)
    assert remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_links_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "precious").write_text("")
    folder = tmp_path / "session"
    (folder / "a").mkdir(parents=True)
    (folder / "link").symlink_to(kept)
    (folder / "a" / "link").symlink_to(kept)
    (folder / "a" / "loop").symlink_to(folder)
    assert remove_tree(folder)
    assert (kept / "precious").exists()


def test_what_cannot_be_removed_is_set_aside(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "session"
    (folder / "stuck").mkdir(parents=True)
    (folder / "goes").write_text("")
    real = os.rmdir

    def rmdir(path, *, dir_fd=None):
        if path == "stuck":
            raise OSError(16, "Device or resource busy")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(removal.os, "rmdir", rmdir)
    assert not remove_tree(folder)
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith(removal.ASIDE)
    assert [entry.name for entry in aside.iterdir()] == ["stuck"]
    assert "cannot be removed" in caplog.text


def test_leftovers_at_start(tmp_path):
    """A server that was killed left a folder nested 1,500 deep: the next one starts, and removes it."""
    left = ServerFolder(tmp_path)
    nest(left.path, 1500)
    os.close(left._lock)
    fresh = ServerFolder(tmp_path)
    assert fresh.remove_leftovers() == 1
    assert not left.path.exists()
    fresh.remove()
    assert list(tmp_path.iterdir()) == []


def test_depth_counts_as_disk(tmp_path):
    """Files behind paths that are too long to be looked at do not hide from the limit."""
    nest(tmp_path, 1200)
    assert disk_usage(tmp_path) == sys.maxsize
    remove_tree(tmp_path)


def test_remover_goes_on(tmp_path):
    remover = Remover()
    for name in ("gone already", "b"):
        (tmp_path / "b").mkdir(exist_ok=True)
        remover.remove(tmp_path / name)
    remover.finish(10)
    assert list(tmp_path.iterdir()) == []
