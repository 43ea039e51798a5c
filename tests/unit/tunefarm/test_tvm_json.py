"""Modules as the JSON of Apache TVM: its files are read, and what is written here is read by the same rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from tests.kit.places import TESTS
from tunefarm import meta_schedule as ms
from tunefarm import te, tir
from tuner.faces.common.tvm_database import graph_of

FILES = sorted((TESTS / "data" / "tvm_json").glob("*.json"))


def row_sums() -> tir.PrimFunc:
    """Read the files; TVM 0.17 and 0.27 wrote them."""
    a, k = te.placeholder((8, 4), name="A"), te.reduce_axis((0, 4), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: te.exp(b[i]) + tir.const(1, "float32"), name="C")
    return te.create_prim_func([a, c]).with_attr("note", 3)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_of_tvm_are_read(file: Path) -> None:
    tvm.ir.assert_structural_equal(tvm.ir.load_json(file.read_text()), tvm.IRModule({"main": row_sums()}))


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_written_is_nodes_and_exact_text(whole: bool) -> None:
    node = tvm.IRModule({"main": row_sums()}) if whole else row_sums()
    text = tvm.ir.save_json(node)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(text), node)
    data = json.loads(text)
    assert {"root", "nodes", "attrs"} <= data.keys()
    # As TVM saves it again, without the text beside the nodes.
    del data["attrs"]["tunefarm.ir"]
    tvm.ir.assert_structural_equal(tvm.ir.load_json(json.dumps(data)), node)
    graph, root = graph_of(data, whole=True)
    assert isinstance(graph.at(root), dict if whole else tir.PrimFunc)


def test_tensors_traces_and_records() -> None:
    values = np.arange(3, dtype="float64")
    again = tvm.ir.load_json(tvm.ir.save_json({"a": tvm.nd.array(values)}))["a"]
    assert (again.dtype, again.numpy().tolist()) == ("float64", [0, 1, 2])
    schedule = tir.Schedule(tvm.IRModule({"main": row_sums()}))
    schedule.split(schedule.get_loops(schedule.get_block("B"))[0], [2, None])
    assert tvm.ir.load_json(tvm.ir.save_json(schedule.trace)) == schedule.trace
    workload = ms.database.Workload(schedule.mod)
    assert tvm.ir.load_json(tvm.ir.save_json(workload)) == workload
    record = ms.database.TuningRecord(schedule.trace, workload, (1.0, 2.0), tvm.target.Target("llvm"))
    read = tvm.ir.load_json(tvm.ir.save_json(record))
    assert (read.trace, read.workload, read.run_secs) == (record.trace, workload, (1.0, 2.0))
    with pytest.raises(IRError, match="save_json cannot keep a Schedule") as refused:
        tvm.ir.save_json(schedule)
    assert "keep `mod` and `trace`" in str(refused.value.hint)
    with pytest.raises(IRError, match="load_json"):
        tvm.ir.load_json('{"format": "tunefarm.objects", "version": 1, "root": 0, "nodes": [["tensor", "?"]]}')


def test_other_nodes_are_refused() -> None:
    for text in ('{"nodes": [], "root": 1}', '{"nodes": [{"type_key": "x.Y"}], "root": 0}', '{"nodes": 3}'):
        with pytest.raises(IRError, match="load_json"):
            tvm.ir.load_json(text)
