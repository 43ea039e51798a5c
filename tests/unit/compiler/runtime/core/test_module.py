"""Modules: loading objects, calling kernels with checked arguments, saving, and refusing what cannot run."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.artifact import ArgSpec, Artifact, EntryPoint
from compiler.errors import ArgumentError, ArtifactError
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.code.cpu_module import CPUModule
from compiler.runtime.core.device import cpu
from compiler.runtime.core.module import MissingFunctionError
from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack, zeros
from compiler.runtime.load import load_artifact, load_module
from compiler.target.cpu_features import host_cpu
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, COUNT, COUNT_ENTRY, artifact, compile_ir
from tests.kit.threads import in_threads


@pytest.fixture(scope="module")
def add() -> CPUModule:
    return load_artifact(artifact(ADD, ADD_ENTRY))


def triple() -> tuple[NDArray, NDArray, NDArray]:
    return array(np.arange(16, dtype="float32")), array(np.ones(16, "float32")), empty((16,))


def test_call(add: CPUModule) -> None:
    a, b, c = triple()
    for call in (add["add"], add.get_function("add"), add, add.entry_func, add[add.entry_name]):
        c[:] = 0
        call(a, b, c)
        np.testing.assert_array_equal(c.numpy(), np.arange(16) + 1)


def test_description(add: CPUModule) -> None:
    assert (add.type_key, add.format) == ("llvm", "o")
    assert add.get_function_list() == ["add"]
    assert add.implements_function("add")
    assert add.implements_function(add.entry_name)
    assert not add.implements_function("sub")
    assert "add" in repr(add)
    assert "add" in repr(add["add"])


def test_missing_function(add: CPUModule) -> None:
    with pytest.raises(AttributeError, match=r"no function 'sub'[\s\S]*functions: add"):
        add.get_function("sub")
    both = load_artifact(artifact(ADD + COUNT, ADD_ENTRY, COUNT_ENTRY))
    with pytest.raises(MissingFunctionError, match="no single entry function"):
        both()


def test_main_is_the_entry_of_several() -> None:
    main = dataclasses.replace(ADD_ENTRY, name="main")
    module = load_artifact(artifact(ADD + COUNT, COUNT_ENTRY, main))
    a, b, c = triple()
    module(a, b, c)
    assert c[15] == 16


def test_imports(add: CPUModule) -> None:
    outer = load_artifact(artifact(COUNT, COUNT_ENTRY))
    outer.import_module(add)
    assert outer.imported_modules == [add]
    with pytest.raises(MissingFunctionError):
        outer.get_function("add")
    assert outer.get_function("add", query_imports=True).name == "add"
    assert outer.implements_function("add", query_imports=True)
    assert not outer.implements_function("add")
    with pytest.raises(ArtifactError, match="import itself"):
        outer.import_module(outer)
    third = load_artifact(artifact(COUNT, COUNT_ENTRY))
    third.import_module(outer)
    with pytest.raises(ArtifactError, match="import itself"):
        outer.import_module(third)


# -- arguments ---------------------------------------------------------------------------------------------


def unaligned() -> NDArray:
    raw = np.zeros(256, "uint8")
    start = -raw.ctypes.data % 64 + 4
    return from_dlpack(raw[start : start + 64].view("float32"))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda: np.zeros(16, "float32"), r"must be an NDArray \(float32\[16\]\), not numpy[\s\S]*nd.array\(x\)"),
        (lambda: 3.0, "must be an NDArray"),
        (lambda: None, "must be an NDArray"),
        (lambda: zeros((16,), "float64"), "has dtype float64; .* built for float32"),
        (lambda: zeros((4, 4)), r"has shape \(4, 4\)"),
        (lambda: zeros((15,)), r"has shape \(15,\); .* float32\[16\]"),
        (unaligned, r"starts at 0x.*not a multiple of 64 bytes[\s\S]*aligned copy"),
    ],
)
def test_bad_array_names_the_argument(add: CPUModule, bad: Any, match: str) -> None:
    a, _, c = triple()
    with pytest.raises(ArgumentError, match=r"add: argument 1 \(B\) " + match) as caught:
        add(a, bad(), c)
    assert isinstance(caught.value, (ValueError, TypeError))
    assert caught.value.detail == {"function": "add", "index": 1, "name": "B"}


def test_wrong_count(add: CPUModule) -> None:
    with pytest.raises(ArgumentError, match=r"takes 3 arguments, 1 given[\s\S]*C: float32\[16\]"):
        add(zeros((16,)))


# writes its scalars, converted, into an array of float64
SCALARS = """
define void @scalars(ptr %out, i32 %i, float %f, i64 %u, i1 %b) { ret void }
define i32 @scalars_packed(ptr %args) {
  %out = load ptr, ptr %args
  %p1 = getelementptr i64, ptr %args, i64 1
  %p2 = getelementptr i64, ptr %args, i64 2
  %p3 = getelementptr i64, ptr %args, i64 3
  %p4 = getelementptr i64, ptr %args, i64 4
  %i = load i64, ptr %p1
  %f = load double, ptr %p2
  %u = load i64, ptr %p3
  %b = load i64, ptr %p4
  %i.f = sitofp i64 %i to double
  %u.f = uitofp i64 %u to double
  %b.f = sitofp i64 %b to double
  %o1 = getelementptr double, ptr %out, i64 1
  %o2 = getelementptr double, ptr %out, i64 2
  %o3 = getelementptr double, ptr %out, i64 3
  store double %i.f, ptr %out
  store double %f, ptr %o1
  store double %u.f, ptr %o2
  store double %b.f, ptr %o3
  ret i32 0
}
"""
SCALARS_ENTRY = EntryPoint(
    "scalars",
    "scalars",
    (
        ArgSpec("out", "float64", ("n",)),
        ArgSpec("i", "int32", None),
        ArgSpec("f", "float32", None),
        ArgSpec("u", "uint64", None),
        ArgSpec("b", "bool", None),
    ),
    (0,),
)


@pytest.fixture(scope="module")
def scalars() -> CPUModule:
    return load_artifact(artifact(SCALARS, SCALARS_ENTRY))


def test_scalars_and_a_free_extent(scalars: CPUModule) -> None:
    for extent in (4, 9):
        out = zeros((extent,), "float64")
        scalars(out, -5, 2.5, 2**63, True)
        assert out.numpy()[:4].tolist() == [-5, 2.5, 2.0**63, 1]
    scalars(out, np.int16(7), 3, np.uint8(1), np.bool_(False))
    assert out.numpy()[:4].tolist() == [7, 3, 1, 0]


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((2**31, 0.0, 0, 0), r"argument 1 \(i\) is 2147483648, which int32 cannot hold"),
        ((0, 0.0, -1, 0), r"\(u\) is -1, which uint64"),
        ((0, 0.0, 0, 2), r"\(b\) is 2, which bool"),
        ((0.5, 0.0, 0, 0), r"\(i\) must be an integer \(int32\), not float"),
        ((0, "x", 0, 0), r"\(f\) must be a number \(float32\), not str"),
        ((0, None, 0, 0), r"\(f\) must be a number"),
    ],
)
def test_bad_scalars(scalars: CPUModule, args: tuple[Any, ...], match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        scalars(zeros((4,), "float64"), *args)
    with pytest.raises(ArgumentError, match=r"\(out\) has shape .* float64\[n\]"):
        scalars(zeros((4, 1), "float64"), 0, 0.0, 0, 0)


def test_many_python_threads_call_one_function(add: CPUModule) -> None:
    def work(seed: int) -> None:
        a, b, c = array(np.full(16, seed, "float32")), array(np.full(16, 2 * seed, "float32")), empty((16,))
        for _ in range(300):
            add(a, b, c)
            assert c.numpy()[7] == 3 * seed

    in_threads(work, range(8))


def test_failure_code() -> None:
    text = """
    define void @fail() { ret void }
    define i32 @fail_packed(ptr %args) { ret i32 CODE }
    """
    entry = EntryPoint("fail", "fail", (), ())
    said = {7: "fail failed with code 7", -9: "code -9", -4: "no kernel for these sizes", -1: "could not allocate"}
    said[-3] = "calls a registered function"
    for code, match in said.items():
        module = load_artifact(artifact(text.replace("CODE", str(code)), entry))
        with pytest.raises(KernelError, match=match):
            module()
        with pytest.raises(KernelError, match=match):
            module.time_evaluator("fail", cpu())()


# -- loading -----------------------------------------------------------------------------------------------


def test_links_libm_and_temporaries() -> None:
    text = """
    declare float @expf(float)
    declare ptr @tunefarm_alloc(i64)
    declare void @tunefarm_free(ptr)
    define void @main(ptr %p) {
      %t = call ptr @tunefarm_alloc(i64 100000)
      %low = ptrtoint ptr %t to i64
      %off = and i64 %low, 63
      %bad = uitofp i64 %off to float
      %x = call float @expf(float 1.0)
      %y = fadd float %x, %bad
      store float %y, ptr %t
      %z = load float, ptr %t
      store float %z, ptr %p
      call void @tunefarm_free(ptr %t)
      ret void
    }
    define i32 @main_packed(ptr %args) {
      %p = load ptr, ptr %args
      call void @main(ptr %p)
      ret i32 0
    }
    """
    module = load_artifact(artifact(text, EntryPoint("main", "main", (ArgSpec("p", "float32", (1,)),), (0,))))
    out = zeros((1,))
    for _ in range(3):
        module(out)
    assert out.numpy()[0] == pytest.approx(np.e, rel=1e-6)


def test_symbols_of_two_modules_do_not_meet() -> None:
    def module(value: int) -> CPUModule:
        text = f"""
        define void @malloc(ptr %p) {{
          store i64 {value}, ptr %p
          ret void
        }}
        define i32 @malloc_packed(ptr %args) {{
          %p = load ptr, ptr %args
          call void @malloc(ptr %p)
          ret i32 0
        }}
        """
        return load_artifact(artifact(text, EntryPoint("f", "malloc", (ArgSpec("p", "int64", (1,)),), (0,))))

    first, second, out = module(1), module(2), zeros((1,), "int64")
    second(out)
    assert out[0] == 2
    first(out)
    assert out[0] == 1


def test_code_stays_while_a_function_is_held() -> None:
    function = load_artifact(artifact(ADD, ADD_ENTRY))["add"]
    a, b, c = triple()
    function(a, b, c)
    assert c[1] == 2


def test_missing_cpu_features_are_named() -> None:
    needs = artifact(ADD, ADD_ENTRY, features=("avx", "avx9000", "quantum"))
    with pytest.raises(ArtifactError, match=r"lacks: .*avx9000, quantum") as caught:
        load_artifact(needs)
    assert host_cpu().name in str(caught.value)
    assert "quantum" in caught.value.detail["missing"]


def replaced(**changes: Any) -> Artifact:
    return dataclasses.replace(artifact(ADD, ADD_ENTRY), **changes)


def test_other_machines_code_is_refused() -> None:
    with pytest.raises(ArtifactError, match="for riscv64; this machine"):
        load_artifact(replaced(target="llvm -mtriple=riscv64-linux-gnu"))
    with pytest.raises(ArtifactError, match="for opencl, not for a CPU"):
        load_artifact(replaced(target="opencl"))
    with pytest.raises(ArtifactError, match="the artifact holds no PTX"):
        load_artifact(replaced(target="cuda -arch=sm_80"))


def test_damaged_objects_are_refused() -> None:
    good = compile_ir(ADD)
    with pytest.raises(ArtifactError, match="no object code"):
        load_artifact(replaced(blobs={}))
    for data, match in [
        (b"not an object", "no ELF file"),
        (good[:40], "no ELF file"),
        (good[:200], "outside the file"),
        (good[:4] + b"\x01" + good[5:], "64-bit"),
        (good[:16] + b"\x03" + good[17:], "not a relocatable"),
        (good[:18] + b"\x08" + good[19:], "machine 8 code"),
    ]:
        with pytest.raises(ArtifactError, match=match):
            load_artifact(replaced(blobs={"object": data}))


def test_missing_symbols_are_named() -> None:
    with pytest.raises(ArtifactError, match="does not define add, add_packed"):
        load_artifact(replaced(blobs={"object": compile_ir(COUNT)}))
    text = (
        ADD
        + "declare void @no_such_function()\n"
        + ADD.replace("@add", "@other").replace("ret void", "call void @no_such_function()\n  ret void")
    )
    with pytest.raises(ArtifactError, match="does not have: no_such_function"):
        load_artifact(replaced(blobs={"object": compile_ir(text)}))


# -- files -------------------------------------------------------------------------------------------------


def test_source(add: CPUModule) -> None:
    assert "define void @add" in add.get_source()
    assert add.get_source("ll") == add.get_source()
    with pytest.raises(ArtifactError, match=r"format 'asm'[\s\S]*it has: ll"):
        add.get_source("asm")
    with pytest.raises(ArtifactError, match="format 'cubin'"):
        add.get_source("cubin")


def test_save_and_load(add: CPUModule, tmp_path: Path) -> None:
    for name in ("m.tunefarm", "plain"):
        add.save(str(tmp_path / name))
        again = load_module(str(tmp_path / name))
        a, b, c = triple()
        again(a, b, c)
        assert c[3] == 4
    add.save(str(tmp_path / "m.o"))
    assert load_module(str(tmp_path / "m.o")).artifact.digest == add.artifact.digest  # type: ignore[attr-defined]
    add.save(str(tmp_path / "x"), "ll")
    assert (tmp_path / "x").read_text() == add.get_source("ll")
    with pytest.raises(ArtifactError, match="cannot be saved as 'so'"):
        add.save(str(tmp_path / "m.so"))


def test_load_module_refuses_other_files(add: CPUModule, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="No such file"):
        load_module(str(tmp_path / "nothing"))
    (tmp_path / "m.o").write_bytes(add.artifact.blobs["object"])
    with pytest.raises(ArtifactError, match="not written by tunefarm"):
        load_module(str(tmp_path / "m.o"))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ArtifactError, match="no tunefarm artifact"):
        load_module(str(tmp_path / "text"))


def test_importing_the_module_compiles_nothing() -> None:
    code = "import compiler.runtime.core.module; from compiler.runtime.core import native; exit(bool(native._native))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
