"""Parts linked into a library besides the module: addons, static libraries; libraries for other machines."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import ArtifactError
from compiler.runtime.core.code.special_modules import load_static_library
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.core.threads import num_threads, set_num_threads
from compiler.runtime.files.elf import elf_machine
from compiler.runtime.files.linker import LinkError, create_tar
from compiler.runtime.load import load_module
from compiler.target.cpu_features import architecture
from tests.kit.compiler.library import KINDS, build, build_calling, check, compile_c, needs_cc
from tunefarm.contrib import cc

TRIPLE = "float triple(float x) { return 3 * x; }"
OTHER_MACHINE = "aarch64" if architecture(None) != "aarch64" else "riscv64"
OTHER = f"llvm -mtriple={OTHER_MACHINE}-linux-gnu"


# -- addons and static libraries ---------------------------------------------------------------------------
@needs_cc
@pytest.mark.parametrize("suffix", KINDS)
def test_a_kernel_calls_what_an_addon_defines(tmp_path: Path, suffix: str) -> None:
    module = build_calling("triple")
    assert not module.is_runnable
    with pytest.raises(ArtifactError, match="functions this machine does not have: triple"):
        module.entry_func
    path = str(tmp_path / f"lib.{suffix}")
    module.export_library(path, addons=[compile_c(tmp_path, TRIPLE)])
    check(load_module(path), factor=3)


@needs_cc
def test_a_library_brings_its_addons_along(tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar", tmp_path / "second.tunefarm"
    build_calling("triple").export_library(str(first), addons=[compile_c(tmp_path, TRIPLE)])
    with tarfile.open(first) as archive:
        assert archive.getnames() == ["lib0.o", "extra.o"]
    load_module(str(first)).export_library(str(second))
    check(load_module(str(second)), factor=3)
    load_module(str(first)).export_library(str(tmp_path / "third.so"))
    check(load_module(str(tmp_path / "third.so")), factor=3)


@needs_cc
@pytest.mark.parametrize("suffix", [None, *KINDS])
def test_an_imported_static_library_gives_a_kernel_its_functions(tmp_path: Path, suffix: str | None) -> None:
    module = build_calling("triple")
    module.import_module(load_static_library(compile_c(tmp_path, TRIPLE), ["triple"]))
    assert module.is_runnable
    check(module, factor=3)
    if suffix is not None:
        path = str(tmp_path / f"lib.{suffix}")
        module.export_library(path)
        check(load_module(path), factor=3)


@needs_cc
def test_addons_that_need_each_other_and_libc(tmp_path: Path) -> None:
    one = compile_c(tmp_path, "#include <stdlib.h>\nfloat twice(float x) { return abs(-2) * x; }", "one")
    uses = "float twice(float); static float c = 1.5f; float triple(float x) { return c * twice(x); }"
    two = compile_c(tmp_path, uses, "two")
    build_calling("triple").export_library(str(tmp_path / "lib.tar"), addons=[two, one])
    check(load_module(str(tmp_path / "lib.tar")), factor=3)


@needs_cc
def test_addons_that_cannot_be_linked_later(tmp_path: Path) -> None:
    path = str(tmp_path / "lib.tar")
    compile_c(tmp_path, TRIPLE)
    with pytest.raises(ArtifactError, match=r"cannot read the addon .*nowhere\.o"):
        build().export_library(path, addons=[str(tmp_path / "nowhere.o")])
    with pytest.raises(ArtifactError, match=r"extra\.c' is no \w+ object file"):
        build().export_library(path, addons=[str(tmp_path / "extra.c")])
    assert not Path(path).exists()
    build_calling("triple").export_library(str(tmp_path / "lib.so"), addons=[str(tmp_path / "extra.c")])
    check(load_module(str(tmp_path / "lib.so")), factor=3)  # a compiler takes more than objects


@needs_cc
def test_two_definitions_of_one_function(tmp_path: Path) -> None:
    path, addons = str(tmp_path / "lib.tar"), [compile_c(tmp_path, TRIPLE, name) for name in ("x", "y")]
    build_calling("triple").export_library(path, addons=addons)
    with pytest.raises(ArtifactError, match="more than one object defines triple"):
        load_module(path)


# -- other machines ----------------------------------------------------------------------------------------
def test_a_module_for_another_machine_can_be_exported_but_not_called(tmp_path: Path) -> None:
    module = build(target=OTHER)
    assert not module.is_runnable
    with pytest.raises(ArtifactError, match=rf"the artifact is for {OTHER_MACHINE}; this machine is"):
        module["scale"]
    path = tmp_path / "lib.tar"
    module.export_library(str(path))
    with pytest.raises(ArtifactError, match=rf"the artifact is for {OTHER_MACHINE}; this machine is"):
        load_module(str(path))


@pytest.mark.skipif(shutil.which("ld.lld") is None, reason="no linker for other machines")
def test_a_library_for_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    build(target=OTHER).export_library(str(path))
    assert elf_machine(path.read_bytes()[:20]) == OTHER_MACHINE
    with pytest.raises(ArtifactError, match=rf"the artifact is for {OTHER_MACHINE}; this machine is"):
        load_module(str(path))


def test_a_module_for_a_32_bit_machine_is_exported_as_an_artifact(tmp_path: Path) -> None:
    module = build(target="llvm -mtriple=armv7a-linux-gnueabihf")
    for suffix in ("so", "tar"):
        with pytest.raises(ArtifactError, match=r"64-bit little-endian machines only[\s\S]*\.tunefarm"):
            module.export_library(str(tmp_path / f"lib.{suffix}"))
    module.export_library(str(tmp_path / "lib.tunefarm"))
    with pytest.raises(ArtifactError, match="the artifact is for arm; this machine is"):
        load_module(str(tmp_path / "lib.tunefarm"))


@needs_cc
def test_the_hosts_linker_is_not_taken_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gcc").symlink_to(shutil.which("gcc") or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(LinkError) as caught:
        build(target=OTHER).export_library(str(tmp_path / "lib.so"))
    assert f"no linker for {OTHER_MACHINE} was found" in caught.value.message
    for way in (f"{OTHER_MACHINE}-linux-gnu-gcc", "lld", "cc=", "fcompile=", ".tar", ".tunefarm"):
        assert way in str(caught.value.hint)


# -- loaded libraries --------------------------------------------------------------------------------------
@pytest.fixture
def restore_threads() -> Iterator[None]:
    before = num_threads()
    yield
    set_num_threads(before)


@needs_cc
def test_a_loaded_librarys_pool_follows_the_runtimes(tmp_path: Path, restore_threads: None) -> None:
    build().export_library(str(tmp_path / "lib.so"))
    set_num_threads(3)
    module = load_module(str(tmp_path / "lib.so"))
    threads = module._code._library.tunefarm_get_threads  # type: ignore[attr-defined]
    assert threads() == 3
    for wanted in (1, 4, 2):
        set_num_threads(wanted)
        assert threads() == wanted
        check(module)


@needs_cc
def test_a_library_written_anew_is_the_new_one(tmp_path: Path) -> None:
    path = str(tmp_path / "lib.so")
    build(2).export_library(path)
    first = load_module(path)
    build(3).export_library(path)
    second = load_module(path)
    check(first, factor=2)
    check(second, factor=3)
    check(load_module(path), factor=3)


# -- objects of several modules -----------------------------------------------------------------------------
@needs_cc
@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_objects_that_were_saved_alone_make_one_library(tmp_path: Path, suffix: str) -> None:
    names = [str(tmp_path / "one.o"), str(tmp_path / "two.o")]
    for name, module in zip(names, [build(), build(3, "triple")]):
        module.save(name)
    path = str(tmp_path / f"both.{suffix}")
    (cc.create_shared if suffix == "so" else create_tar)(path, names)
    loaded = load_module(path)
    assert sorted(loaded.get_function_list()) == ["scale", "triple"]
    for name, factor in [("scale", 2), ("triple", 3)]:
        values, out = array(np.arange(256, dtype="float32")), empty((256,), "float32")
        loaded[name](values, out)
        np.testing.assert_array_equal(out.numpy(), factor * values.numpy())


def test_objects_of_one_name_make_no_library(tmp_path: Path) -> None:
    names = [str(tmp_path / "one.o"), str(tmp_path / "two.o")]
    for name in names:
        build().save(name)
    create_tar(str(tmp_path / "both.tar"), names)
    with pytest.raises(ArtifactError, match="two kernels define scale"):
        load_module(str(tmp_path / "both.tar"))


def test_bitcode_is_saved(tmp_path: Path) -> None:
    build().save(str(tmp_path / "scale.bc"))
    assert (tmp_path / "scale.bc").read_bytes()[:4] == b"BC\xc0\xde"


@pytest.mark.parametrize("name", ["scale.ll", "scale.bc"])
def test_code_of_llvm_is_not_loaded(tmp_path: Path, name: str) -> None:
    build().save(str(tmp_path / name))
    with pytest.raises(ArtifactError, match=r"does not say what its functions take.*\n.*export_library"):
        load_module(str(tmp_path / name))


# -- what a module says of itself --------------------------------------------------------------------------
@needs_cc
def test_descriptions(tmp_path: Path) -> None:
    module, other = build(), build(3, "triple")
    static = load_static_library(compile_c(tmp_path, TRIPLE), ["triple"])
    assert (module.type_key, module.format, module.is_dso_exportable) == ("llvm", "o", True)
    assert (static.type_key, static.format, static.is_dso_exportable) == ("static_library", "o", True)
    module.import_module(other)
    assert module.implements_function("scale")
    assert not module.implements_function("triple")
    assert module.implements_function("triple", query_imports=True)
    assert not module.implements_function("nothing", query_imports=True)
    assert other.implements_function("__tvm_main__")
    module.export_library(str(tmp_path / "lib.so"))
    loaded = load_module(str(tmp_path / "lib.so"))
    assert (loaded.type_key, loaded.format, loaded.is_dso_exportable) == ("library", "o", False)
    assert loaded.implements_function("triple", query_imports=True)
    with pytest.raises(ArtifactError, match="no object code"):
        loaded.export_library(str(tmp_path / "again.so"))
