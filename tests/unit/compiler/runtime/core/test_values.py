"""Objects of the runtime besides arrays: data types, strings, shapes, conversion; static and system libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.driver.objects import convert, convert_to_object
from compiler.errors import ArgumentError, ArtifactError
from compiler.runtime.core.code.special_modules import load_static_library, system_lib
from compiler.runtime.core.module import ModulePropertyMask
from compiler.runtime.core.ndarray import array, empty, numpyasarray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.values import DataType, DataTypeCode, ShapeTuple, String
from compiler.runtime.load import load_artifact, load_module
from compiler.te.operation import compute, placeholder
from compiler.te.schedule.schedule import create_schedule
from compiler.tir.nodes import FloatImm, IntImm
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, artifact


def test_data_types() -> None:
    vector = DataType("float16x4")
    assert vector == "float16x4"
    assert (vector.type_code, vector.bits, vector.lanes) == (DataTypeCode.FLOAT, 16, 4)
    assert (DataType("bool").type_code, DataType("bool").bits) == (DataTypeCode.UINT, 1)
    assert DataType("bfloat16").type_code == 4
    assert [DataType(name) for name in ("int", "uint", "float")] == ["int32", "uint32", "float32"]
    with pytest.raises(ValueError, match="float33"):
        DataType("float33")


def test_shapes_and_strings() -> None:
    assert ShapeTuple([2, np.int64(3)]) == (2, 3)
    assert String("a") == "a"
    with pytest.raises(ArgumentError, match="non-negative"):
        ShapeTuple([2, -1])


def test_convert() -> None:
    one, half = convert_to_object([1, 0.5])
    assert isinstance(one, IntImm)
    assert isinstance(half, FloatImm)
    assert (one.dtype, half.dtype) == ("int32", "float32")
    assert isinstance(convert_to_object({"k": "v"})["k"], String)
    length = convert(len)
    assert isinstance(length, PackedFunc)
    assert length("abc") == 3
    assert convert(length) is length
    with pytest.raises(ArgumentError, match="object"):
        convert_to_object(object())


def test_views_share_memory() -> None:
    values = np.zeros(32, "float32")
    shared = numpyasarray(values)
    shared[3] = 7
    assert values[3] == 7
    whole = empty((4, 16))
    part = whole._create_view((16,), relative_byte_offset=64)
    part[:] = np.arange(16)
    assert part.is_aligned
    assert whole[1, 5] == 5
    assert whole._create_view((64,), "int32").shape == (64,)
    with pytest.raises(ArgumentError, match="from byte 64"):
        whole._create_view((64,), relative_byte_offset=64)
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        numpyasarray(values[::2])
    assert whole.same_as(whole)
    assert not whole.same_as(part)


def test_the_system_library_knows_what_was_built_for_it() -> None:
    a = placeholder((16,), name="A")
    b = compute((16,), lambda i: a[i] + 1, name="B")
    driver.build(create_schedule(b.op), [a, b], target="llvm -system-lib", name="values_plus_one")
    x, y = array(np.zeros(16, "float32")), empty((16,))
    system_lib()["values_plus_one"](x, y)
    assert y.numpy().tolist() == [1] * 16
    with pytest.raises(AttributeError, match="nothing_like_it"):
        system_lib()["nothing_like_it"]
    prefixed = system_lib("values_")
    assert "plus_one" in prefixed.get_function_list()
    prefixed["plus_one"](y, x)
    assert x.numpy().tolist() == [2] * 16
    assert prefixed.time_evaluator("plus_one", x.device, number=1)(x, y).mean > 0
    assert not system_lib("other_").get_function_list()


def test_a_module_says_what_it_can_be_used_for() -> None:
    a = placeholder((16,), name="A")
    b = compute((16,), lambda i: a[i] + 1, name="B")
    module = driver.build(create_schedule(b.op), [a, b], target="llvm")
    mask = module.get_property_mask()
    assert mask & ModulePropertyMask.RUNNABLE
    assert mask & ModulePropertyMask.DSO_EXPORTABLE
    assert not system_lib().get_property_mask() & ModulePropertyMask.DSO_EXPORTABLE


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_a_static_library_is_linked_into_the_module_that_imports_it(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int forty_two(void) { return 42; }")
    subprocess.run(["gcc", "-c", "-fPIC", "f.c", "-o", "f.o"], cwd=tmp_path, check=True)
    static = load_static_library(str(tmp_path / "f.o"), ["forty_two"])
    assert static.implements_function("forty_two")
    assert static.is_dso_exportable
    with pytest.raises(ArtifactError, match="cannot be called"):
        static["forty_two"]
    with pytest.raises(ArtifactError, match="does not define g"):
        load_static_library(str(tmp_path / "f.o"), ["g"])
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    module.import_module(static)
    module.export_library(str(tmp_path / "all.so"))
    loaded = load_module(str(tmp_path / "all.so"))
    assert loaded._code.address("forty_two")  # type: ignore[attr-defined]
    module.clear_imports()
    assert module.imported_modules == []
