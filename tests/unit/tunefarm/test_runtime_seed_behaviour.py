"""The runtime's document, sentence by sentence: what its modules, devices, reports and files do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te, tir
from tunefarm.contrib import cc

needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to link with")


def plus_one(name: str = "plus_one") -> Any:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    return tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name=name)


def adds_one(function: Any) -> bool:
    a, b = tvm.nd.array(np.arange(4, dtype="float32")), tvm.nd.empty((4,), "float32")
    function(a, b)
    return b.numpy().tolist() == [1, 2, 3, 4]


# -- objects and numbers -----------------------------------------------------------------------------------
def test_objects() -> None:
    report = tvm.runtime.Report([], {}, {})
    for item in (tvm.runtime.String("x"), tvm.runtime.ShapeTuple([1]), report, tvm.runtime.convert_to_object([1])):
        assert isinstance(item, tvm.runtime.Object)
    assert isinstance(tvm.runtime.convert([1, 2]), tvm.runtime.Object)
    assert callable(tvm.runtime.convert(len))
    assert isinstance(tvm.runtime.const(3, "int8"), tir.IntImm)
    assert tvm.runtime.const(3, "int8").dtype == "int8"
    assert tvm.runtime.num_threads() >= 1
    assert tvm.runtime.DataTypeCode.INT != tvm.runtime.DataTypeCode.FLOAT

    class Mine(tvm.runtime.ObjectGeneric):
        def asobject(self) -> Any:
            return tvm.runtime.String("mine")

    assert tvm.runtime.convert(Mine()) == "mine"


def test_what_is_not_said_of_a_cpu_is_none() -> None:
    device = tvm.cpu()
    assert device.exist
    for name in (
        "max_threads_per_block", "warp_size", "max_shared_memory_per_block", "compute_version", "device_name",
        "max_clock_rate", "multi_processor_count", "max_thread_dimensions", "api_version", "driver_version",
    ):  # fmt: skip
        assert getattr(device, name) is None
    assert (tvm.metal().warp_size, tvm.opencl().warp_size) == (1, 1)
    stream = device.create_raw_stream()
    device.set_raw_stream(stream)
    device.sync(stream)
    device.sync()
    device.free_raw_stream(stream)


# -- modules -----------------------------------------------------------------------------------------------
def test_modules() -> None:
    module, other = plus_one(), plus_one("other")
    assert adds_one(module.entry_func)
    assert module.type_key
    assert isinstance(module.format, str)
    assert module.is_dso_exportable
    assert module.get_source()
    assert module.implements_function("plus_one")
    assert not module.implements_function("other")
    module.import_module(other)
    assert list(module.imported_modules) == [other]
    assert module.implements_function("other", query_imports=True)
    assert adds_one(module.get_function("other", query_imports=True))
    with pytest.raises(AttributeError):
        module.get_function("other")


def test_a_saved_module_is_without_those_it_imports(tmp_path: Path) -> None:
    module = plus_one()
    module.import_module(plus_one("other"))
    module.save(str(tmp_path / "lib.o"))
    assert (tmp_path / "lib.o").read_bytes()[:4] == b"\x7fELF"
    assert b"other" not in (tmp_path / "lib.o").read_bytes()


def test_how_often_an_evaluator_calls() -> None:
    calls: list[int] = []
    tvm.register_func("runtime_seed.note", lambda: calls.append(1), override=True)
    a = te.placeholder((1,), name="A")
    b = te.extern((1,), [a], lambda ins, outs: tir.call_packed("runtime_seed.note"), name="B", dtype="float32")
    module = tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name="noting")
    arrays = [tvm.nd.empty((1,), "float32") for _ in range(2)]
    try:
        result = module.time_evaluator("noting", tvm.cpu(), number=3, repeat=2)(*arrays)
    finally:
        tvm.runtime.remove_global_func("runtime_seed.note")
    assert len(calls) == 1 + 3 * 2
    assert len(result.results) == 2
    assert result.mean == pytest.approx(np.mean(result.results))


# -- files -------------------------------------------------------------------------------------------------
@needs_linker
def test_exported_libraries(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def compile_it(target: str, files: list[str], **options: Any) -> str:
        seen.update(files=files, options=options)
        cc.create_shared(target, files)
        return "made"

    compile_it.object_format = "o"  # type: ignore[attr-defined]
    (tmp_path / "work").mkdir()
    module = plus_one()
    assert module.export_library(str(tmp_path / "a.so"), compile_it, workspace_dir=str(tmp_path / "work"), mine=3) == (
        "made"
    )
    assert all(Path(name).suffix == ".o" and tmp_path / "work" in Path(name).parents for name in seen["files"])
    assert seen["options"]["mine"] == 3
    module.export_library(str(tmp_path / "b.so"))
    for name in ("a.so", "b.so"):
        assert adds_one(tvm.runtime.load_module(str(tmp_path / name))["plus_one"])


@needs_linker
def test_objects_and_archives_are_linked_when_they_are_loaded(tmp_path: Path) -> None:
    module = plus_one()
    module.save(str(tmp_path / "lib.o"))
    module.export_library(str(tmp_path / "lib.tar"))
    for name in ("lib.o", "lib.tar"):
        assert adds_one(tvm.runtime.load_module(str(tmp_path / name))["plus_one"])
    static = tvm.runtime.load_static_library(str(tmp_path / "lib.o"), ["plus_one"])
    assert static.implements_function("plus_one")
    assert isinstance(tvm.runtime.system_lib(), tvm.runtime.Module)


# -- reports -----------------------------------------------------------------------------------------------
def test_reports() -> None:
    count = tvm.runtime.profiling.Count
    microseconds = tvm.runtime.profiling.Duration
    calls = [
        {"Name": "slow", "Duration (us)": microseconds(30.0), "Count": count(1)},
        {"Name": "fast", "Duration (us)": microseconds(10.0), "Count": count(2)},
        {"Name": "fast", "Duration (us)": microseconds(5.0), "Count": count(1)},
    ]
    report = tvm.runtime.Report(calls, {"cpu0": {"Duration (us)": microseconds(45.0)}}, {"threads": count(1)})
    assert [call["Name"] for call in report.calls] == ["slow", "fast", "fast"]
    assert list(report.device_metrics) == ["cpu0"]
    header, *rows = report.csv().strip().splitlines()
    assert "Name" in header
    assert len(rows) == 3
    table = report.table()
    assert table.count("fast") == 1  # calls of the same name are one line
    assert table.index("slow") < table.index("fast")
    assert report.table(aggregate=False).count("fast") == 2
    assert len(report.table(col_sums=False).splitlines()) < len(table.splitlines())
    again = tvm.runtime.Report.from_json(report.json())
    assert json.loads(again.json()) == json.loads(report.json())
