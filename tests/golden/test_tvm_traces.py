"""Schedules that Apache TVM made are made again here from their traces, and are the same modules.

The data is made by `tests/data/tvm_traces/record.py`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from compiler.faces.tir_schedule.schedule import Schedule
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_equal
from compiler.script.entry import from_source
from compiler.tir.intrin import tensor_intrin
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w
from tests.kit.places import TESTS
from tunefarm.script import tir

VERSIONS = ("0_17", "0_27")
DIFFERS = {
    "cached_in_place": "TVM's copies stand in the loops of the block, and use its axes there",
    "cached_index": "TVM does not say that the block reads the buffers of its indices",
    "blocks": "the block inside keeps its axes, over all of their domains",
    "blocks_of_plain_loops": "the block inside keeps its axes, over all of their domains",
    "tensorized": "buffers of the intrinsic are put in place; TVM's are views of them",
    "laid_out_with_padding": "the condition for padding is about the old index",
    "rolling": "TVM also skips what a loop further out computed before",
    "parted": "there are no blocks around the parts, and their loops begin at 0",
    "parted_inside": "there are no blocks around the parts, and their loops begin at 0",
    "copied_at": "the annotation is 1, and true in TVM 0.27",
}
"""Schedules whose module is another here, and how. They compute the same."""
NOT_RUN = {
    "cached_in_place": "TVM's module uses variables that are not defined there",
    "cached_index": "TVM's buffers of two dimensions have one stride",
}
NOT_SPELLED = ("reindexed", "reindexed_write")
"""Traces of the TVM 0.17 that made the data have an attribute which no release of TVM has."""
NOT_TYPED = ("asked",)
"""TVM spells an argument of `get_output_blocks` that its own method does not have."""


@cache
def kept(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TESTS / "data" / "tvm_traces" / f"tvm_{version}.json").read_text())
    return found


CASES = [(version, name) for version in VERSIONS for name in kept(version)["schedules"]]


def module(text: str) -> IRModule:
    found = from_source(text)
    assert isinstance(found, IRModule)
    return found


@pytest.fixture(autouse=True)
def _intrinsic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intrinsic that the schedule `tensorized` uses, for one test."""
    desc, impl = (from_source(text) for text in kept("0_17")["intrin"])
    assert isinstance(desc, PrimFunc)
    assert isinstance(impl, PrimFunc)
    monkeypatch.setitem(tensor_intrin._REGISTRY, "trace_dot_4x4", tensor_intrin.TensorIntrin(desc, impl))


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_schedule_of_tvm_is_made_again(version: str, name: str) -> None:
    data = kept(version)["schedules"][name]
    before, after = module(data["before"]), module(data["after"])
    sch = Schedule(before, debug_mask="all")
    Trace.apply_json_to_schedule(json.dumps(data["trace"]), sch)
    if name not in DIFFERS or (name == "copied_at" and version == "0_17"):
        assert_structural_equal(sch.mod, after)
    else:
        assert not structural_equal(sch.mod, after)
        if name not in NOT_RUN:
            made, wanted = sch.mod["main"], after["main"]
            assert isinstance(made, PrimFunc)
            assert isinstance(wanted, PrimFunc)
            w.check_same(made, wanted)


@pytest.mark.parametrize("name", [name for version, name in CASES if version == "0_17"])
def test_its_trace_is_written_as_tvm_writes_it(name: str) -> None:
    data = kept("0_17")["schedules"][name]
    trace = Trace.from_field_json(data["trace"])
    sch = Schedule(module(data["before"]))
    trace.apply_to_schedule(sch)
    if name not in NOT_SPELLED:
        assert plain(sch.trace.as_json()) == plain(data["trace"])
        assert data["python"] in (None, sch.trace.as_python())
    if name in NOT_TYPED:
        return
    again = Schedule(module(data["before"]))
    exec("\n".join(sch.trace.as_python()), {"sch": again, "T": tir})
    assert_structural_equal(again.mod, sch.mod)


def plain(found: Any) -> Any:
    """A trace without what says nothing: the spaces of saved maps."""
    if isinstance(found, str) and found.startswith("{"):
        return re.sub(r"\s", "", found)
    return [plain(item) for item in found] if isinstance(found, list | tuple) else found
