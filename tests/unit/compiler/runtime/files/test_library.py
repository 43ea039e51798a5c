"""Modules as objects, shared libraries and tar files, used from C and loaded back."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.errors import ArgumentError, ArtifactError
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.files.linker import LinkError
from compiler.runtime.load import load_module
from compiler.te import operation as te
from compiler.te.schedule.schedule import create_schedule
from compiler.tir import nodes as n
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
    with pytest.raises(ArtifactError, match="cannot be written so"):
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


@needs_cc
@pytest.mark.parametrize("written_as", ["s", "o"])
def test_a_compiler_may_get_the_code_as_text(tmp_path: Path, written_as: str) -> None:
    seen: list[str] = []

    def fcompile(target: str, files: list[str]) -> None:
        seen.extend(Path(name).name for name in files)
        subprocess.run(["gcc", "-shared", "-o", target, *files, "-lm", "-lpthread"], check=True)

    fcompile.object_format = written_as  # type: ignore[attr-defined]
    build().export_library(str(tmp_path / "x.so"), fcompile)
    assert seen == [f"lib0.{written_as}", "devc.o"]
    check(load_module(str(tmp_path / "x.so")))


@pytest.mark.parametrize(("written_as", "begins"), [("ll", b"@"), ("bc", b"BC")])
def test_llvms_own_formats(tmp_path: Path, written_as: str, begins: bytes) -> None:
    def fcompile(target: str, files: list[str]) -> bytes:
        return Path(files[0]).read_bytes()

    fcompile.object_format = written_as  # type: ignore[attr-defined]
    assert b"define" in build().export_library("x.so", fcompile) or written_as == "bc"
    assert build().export_library("x.so", fcompile).startswith(begins) or written_as == "ll"


@needs_cc
def test_c_passes_memory_of_the_strides_that_were_built_for(tmp_path: Path) -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="B")
    strided = {a: n.decl_buffer((4, 4), "float32", "A", strides=[8, 1])}
    module = driver.build(create_schedule(b.op), [a, b], "llvm", name="f", binds=strided)
    with pytest.raises(ArgumentError, match=r"built for strides \(8, 1\)"):
        module(array(np.ones((4, 4), np.float32)), empty((4, 4)))
    module.export_library(str(tmp_path / "f.so"))
    assert load_module(str(tmp_path / "f.so")).artifact.entries[0].args[0].strides == (8, 1)  # type: ignore[attr-defined]
    source, out = array(np.arange(32, dtype=np.float32).reshape(4, 8)), empty((4, 4))
    code = ctypes.CDLL(str(tmp_path / "f.so"))
    code.f(ctypes.c_void_p(source.data_ptr), ctypes.c_void_p(out.data_ptr))
    assert (out.numpy() == source.numpy()[:, :4] + 1).all()
