"""Modules as objects, shared libraries and tar files, used from C and loaded back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compiler.errors import ArtifactError
from compiler.runtime.files.linker import LinkError
from compiler.runtime.load import load_module
from tests.kit.compiler.library import KINDS, build, check, needs_cc

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "scale.h"
#if TUNEFARM_LIBRARY_VERSION != 1
#error "another version"
#endif
int main(void) {
  float *a = aligned_alloc(64, 256 * sizeof(float)), *b = aligned_alloc(64, 256 * sizeof(float));
  for (int threads = 1; threads <= 4; threads++) {
    tunefarm_set_threads(threads);
    for (int i = 0; i < 256; i++) { a[i] = i; b[i] = 0; }
    scale(a, b);
    for (int i = 0; i < 256; i++) if (b[i] != 2 * i) return 1;
    void *slots[2] = {a, b};
    if (scale_packed(slots) != 0) return 2;
  }
  printf("%d threads", tunefarm_get_threads());
  return 0;
}
"""


@needs_cc
def test_a_c_program_uses_the_library(tmp_path: Path) -> None:
    module = build()
    module.export_library(str(tmp_path / "libscale.so"))
    module.save(str(tmp_path / "scale.h"))
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["gcc", "-std=c11", "-Wall", "-Werror", "main.c", "-L.", "-lscale", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout == "4 threads"


@pytest.mark.parametrize("suffix", KINDS)
def test_a_library_brings_its_imports(tmp_path: Path, suffix: str) -> None:
    module = build()
    module.import_module(build(3, "triple"))
    path = str(tmp_path / f"lib.{suffix}")
    module.export_library(path)
    loaded = load_module(path)
    check(loaded)
    check(loaded, "triple", 3)
    assert not loaded.implements_function("triple")
    assert len(loaded.imported_modules) == 1


def test_an_object_loads_back(tmp_path: Path) -> None:
    build().save(str(tmp_path / "scale.o"))
    check(load_module(str(tmp_path / "scale.o")))


def test_fcompile_gets_the_options_and_gives_the_result(tmp_path: Path) -> None:
    def fcompile(target: str, files: list[str], **options: object) -> object:
        assert all(Path(name).is_file() for name in files)
        return target, options

    result = build().export_library("x.so", fcompile, workspace_dir=str(tmp_path / "w"), options=["-s"])
    assert result == ("x.so", {"options": ["-s"]})
    assert (tmp_path / "w" / "lib0.o").is_file()


def test_a_format_that_cannot_be_written(tmp_path: Path) -> None:
    def fcompile(target: str, files: list[str]) -> None:
        raise AssertionError

    fcompile.object_format = "c"  # type: ignore[attr-defined]
    with pytest.raises(ArtifactError, match="object files only"):
        build().export_library(str(tmp_path / "x.so"), fcompile)


def test_without_a_linker_the_error_names_the_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LinkError, match=r"no linker for \w+ was found[\s\S]*\.tar"):
        build().export_library(str(tmp_path / "x.so"))


@needs_cc
def test_the_linkers_words_are_shown(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="nowhere"):
        build().export_library(str(tmp_path / "x.so"), options=["-lnowhere"])


@needs_cc
def test_a_library_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int f(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "f.c", "-o", "f.so"], cwd=tmp_path, check=True)
    with pytest.raises(ArtifactError, match="not written by tunefarm"):
        load_module(str(tmp_path / "f.so"))
