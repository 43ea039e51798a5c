"""Temporary folders, file locks, and what GPUs can do by their compute capability."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

import tunefarm as tvm
from compiler.errors import CodegenError, TargetError
from tunefarm.contrib import cc, nvcc, tar, utils


def test_a_temporary_folder_goes_away() -> None:
    folder = utils.tempdir()
    path = Path(folder.relpath("a.txt"))
    path.write_text("a")
    assert folder.listdir() == ["a.txt"]
    assert (folder / "a.txt") == path
    assert path.parent == Path(folder.path)
    folder.remove()
    folder.remove()
    assert not path.parent.exists()


def test_a_dropped_temporary_folder_goes_away(tmp_path: Path) -> None:
    wanted = tmp_path / "mine"
    folder = utils.tempdir(wanted)
    assert folder.temp_dir == str(wanted)
    assert wanted.is_dir()
    del folder
    assert not wanted.exists()
    with utils.tempdir() as inside:
        assert Path(inside.path).is_dir()
    assert not Path(inside.path).exists()


def test_a_temporary_folder_may_be_kept(tmp_path: Path) -> None:
    utils.tempdir(tmp_path / "kept", keep_for_debug=True).remove()
    assert (tmp_path / "kept").is_dir()
    with pytest.raises(FileExistsError):
        utils.tempdir(tmp_path / "kept")


def _locks(path: str) -> None:
    utils.filelock(path).release()


def test_folders_made_meanwhile_are_kept(tmp_path: Path) -> None:
    with utils.TempDirectory.set_keep_for_debug():
        folder = utils.tempdir(tmp_path / "kept")
    folder.remove()
    assert (tmp_path / "kept").is_dir()
    assert not utils.tempdir()._kept


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    other = multiprocessing.get_context("fork").Process(target=_locks, args=(path,))
    with utils.filelock(path) as lock:
        other.start()
        other.join(0.2)
        assert other.is_alive()
        lock.release()
        other.join(120)
        assert other.exitcode == 0


def test_sources_and_programs() -> None:
    assert utils.is_source_path("a.cu")
    assert not utils.is_source_path("int a;\n// b.cu")
    assert utils.which("sh")
    assert utils.which("no-such-program") is None


def test_what_gpus_can_do() -> None:
    assert nvcc.parse_compute_version("9.0a") == (9, 0)
    can = {
        version: [nvcc.have_fp16(version), nvcc.have_int8(version), nvcc.have_tensorcore(version),
                  nvcc.have_bf16(version), nvcc.have_fp8(version)]
        for version in ("5.2", "5.3", "6.1", "7.5", "8.6", "8.9")
    }  # fmt: skip
    assert [sum(abilities) for abilities in can.values()] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="sm_86"):
        nvcc.parse_compute_version("sm_86")


def test_the_compute_version_of_a_target() -> None:
    assert nvcc.get_target_compute_version("cuda -arch=sm_86") == "8.6"
    with tvm.Target("cuda -arch=sm_120"):
        assert nvcc.get_target_compute_version() == "12.0"
    assert nvcc.have_tensorcore(target="cuda -arch=sm_70")


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU")
def test_without_a_gpu_the_compute_version_is_unknown() -> None:
    assert not nvcc.have_cudagraph()
    with pytest.raises(TargetError, match="neither"):
        nvcc.get_target_compute_version("llvm")


def test_there_is_no_toolkit() -> None:
    for ask in (nvcc.find_cuda_path, nvcc.get_cuda_version, lambda: nvcc.find_libdevice_path("sm_80")):
        with pytest.raises(RuntimeError, match="uses no CUDA toolkit"):
            ask()


def test_cuda_sources_are_not_compiled() -> None:
    with pytest.raises(CodegenError, match="CUDA C"):
        nvcc.compile_cuda("__global__ void f() {}")


def test_a_compiler_for_another_machine(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int answer(void) { return N; }\n")
    compiler = cc.get_cc()
    assert compiler is not None
    link = cc.cross_compiler(compiler, options=["-DN=42"])
    assert (link.output_format, link.get_target_triple()) == ("so", cc.get_target_by_dump_machine(compiler)())
    link(str(tmp_path / "a.so"), str(tmp_path / "a.c"))
    assert ctypes.CDLL(str(tmp_path / "a.so")).answer() == 42
    assert cc.cross_compiler(tar.tar, output_format="tar").output_format == "tar"
    assert cc.get_target_by_dump_machine("no-such-compiler")() is None


def test_the_machine_that_libraries_are_for() -> None:
    assert cc.create_shared.get_target_triple() == cc.get_target_by_dump_machine(cc.get_cc())()


def test_libraries_and_programs(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int answer(void) { return 42; }\n")
    (tmp_path / "main.c").write_text("int answer(void); int main(void) { return answer(); }\n")
    cc.create_executable(str(tmp_path / "a.o"), str(tmp_path / "a.c"), ["-c"])
    cc.create_staticlib(str(tmp_path / "a.a"), str(tmp_path / "a.o"))
    cc.create_executable(str(tmp_path / "main"), [str(tmp_path / "main.c"), str(tmp_path / "a.a")])
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 42
    with pytest.raises(cc.LinkError, match="could not make"):
        cc.create_executable(str(tmp_path / "b"), str(tmp_path / "a.o"))


def test_tar_files_are_unpacked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    tar.tar(str(tmp_path / "inner.tar"), [str(tmp_path / "a")])
    tar.tar(str(tmp_path / "outer.tar"), [str(tmp_path / "inner.tar"), str(tmp_path / "b")])
    tar.untar(tmp_path / "outer.tar", tmp_path / "here")
    assert sorted(os.listdir(tmp_path / "here")) == ["b", "inner.tar"]
    with utils.tempdir() as temp:
        found = tar.normalize_file_list_by_unpacking_tars(temp, [str(tmp_path / "outer.tar"), "c.o"])
        assert sorted(map(os.path.basename, found)) == ["a", "b", "c.o"]
        assert all(name == "c.o" or Path(name).exists() for name in found)


def test_callbacks_of_nvcc_answer_without_it() -> None:
    assert nvcc.callback_libdevice_path("sm_80") == ""
    with pytest.raises(CodegenError, match="CUDA C is not compiled"):
        nvcc.tvm_callback_cuda_compile("__global__ void f() {}", tvm.target.Target("cuda"))
