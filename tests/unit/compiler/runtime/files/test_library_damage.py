"""Files of every kind, cut short or changed: refused before any of their code runs, or harmless."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.errors import ArtifactError
from compiler.runtime.load import load_module
from tests.kit.compiler.library import KINDS, build, check, compile_c, needs_cc


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"scale.{suffix}"
    module = build()
    if suffix == "o":
        module.save(str(path))
    else:
        module.export_library(str(path))
    return path


@pytest.mark.parametrize("suffix", ["o", *KINDS])
def test_files_cut_short_are_refused(tmp_path: Path, suffix: str) -> None:
    data = written(tmp_path, suffix).read_bytes()
    short = tmp_path / f"short.{suffix}"
    payload = len(data.rstrip(b"\0")) - 41  # without a library's checksum its code is still whole
    rng = random.Random(0)
    for size in [0, 1, 63, 64, *rng.sample(range(payload), 40)]:
        short.write_bytes(data[:size])
        with pytest.raises(ArtifactError):
            load_module(str(short))


@pytest.mark.parametrize("suffix", KINDS)
def test_a_bit_that_flipped_is_noticed_or_harmless(tmp_path: Path, suffix: str) -> None:
    data = written(tmp_path, suffix).read_bytes()
    path, rng = tmp_path / f"flipped.{suffix}", random.Random(1)
    refused = 0
    for _ in range(150):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:  # a tar file's padding, and the names in it, are nobody's business
            check(load_module(str(path)))
        except ArtifactError:
            refused += 1
    assert refused == 150 if suffix != "tar" else refused > 50


def test_damaged_objects_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "o")
    data, rng = path.read_bytes(), random.Random(1)
    own = len(load_module(str(path)).artifact.blobs["object"])  # type: ignore[attr-defined]
    for _ in range(200):
        damaged = bytearray(data)
        at = rng.choice([rng.randrange(4, 64), rng.randrange(64, own), rng.randrange(own, len(data))])
        damaged[at] ^= rng.randrange(1, 256)
        path.write_bytes(damaged)
        try:  # a change in what nobody reads, such as the new section table's padding, does no harm
            check(load_module(str(path)))
        except ArtifactError:
            continue


@needs_cc
def test_addons_in_a_tar_file_are_checked_too(tmp_path: Path) -> None:
    addon = compile_c(tmp_path, "int forty_two(void) { return 42; }")
    path = tmp_path / "scale.tar"
    build().export_library(str(path), addons=[addon])
    data, code = path.read_bytes(), Path(addon).read_bytes()
    at = data.index(code)  # in the description, which comes first
    for offset in (70, len(code) // 2, len(code) - 1):
        damaged = bytearray(data)
        damaged[at + offset] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match="sha256"):
            load_module(str(path))


@needs_cc
def test_every_part_of_a_library_is_sealed(tmp_path: Path) -> None:
    path = written(tmp_path, "so")
    data = path.read_bytes()
    for at in (16, 200, len(data) // 3, len(data) // 2, len(data) - 1, len(data) - 33, len(data) - 40):
        damaged = bytearray(data)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError):
            load_module(str(path))
    path.write_bytes(data + b"\0")
    with pytest.raises(ArtifactError, match="changed after it was written"):
        load_module(str(path))


@needs_cc
@pytest.mark.skipif(shutil.which("strip") is None, reason="no strip")
def test_a_stripped_library_has_no_seal_and_loads(tmp_path: Path) -> None:
    path = written(tmp_path, "so")
    before = path.stat().st_size
    subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
    assert path.stat().st_size < before
    check(load_module(str(path)))
