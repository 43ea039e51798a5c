"""Texts for two versions of Apache TVM: each version has read them, and printed what it read (`exchanged.json`)."""

from __future__ import annotations

import json

import pytest

from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from tests.kit.places import TESTS

KEPT = json.loads((TESTS / "data" / "tvm_texts" / "exchanged.json").read_text())


@pytest.mark.parametrize("version", ["0.17", "0.27"])
@pytest.mark.parametrize("name", KEPT)
def test_a_text_that_they_read_is_what_we_print_and_theirs_is_the_same_function(name: str, version: str) -> None:
    ours, theirs = "\n".join(KEPT[name]["ours"][version]), "\n".join(KEPT[name]["theirs"][version])
    made = from_source(ours)
    assert made.script(tvm_version=version) == ours
    plain = made.without_attr("target")  # what they print of a target depends on the machine
    assert_structural_equal(from_source(theirs).without_attr("target"), plain, map_free_vars=True)


def test_modules_name_both_dialects() -> None:
    made = from_source("\n".join(KEPT["lowered"]["ours"]["0.27"]))
    lines = IRModule({"lowered": made}).script(tvm_version="0.27").splitlines()
    assert lines[:2] == ["# from tvm.script import ir as I", "# from tvm.script import tirx as T"]
    assert_structural_equal(from_source("\n".join(lines))["lowered"], made)


def test_what_a_version_has_no_text_for_is_refused() -> None:
    made = from_source("\n".join(KEPT["lowered"]["ours"]["0.27"]))
    with pytest.raises(IRError, match=r"Apache TVM 0\.9 are not known"):
        made.script(tvm_version="0.9")
    (buffer,) = made.buffer_map.values()
    masked = n.BufferStore(buffer, n.FloatImm("float32", 1.0), (n.IntImm("int32", 0),), n.IntImm("bool", 1))
    for stmt, what in (
        (masked, "stores with a mask"),
        (n.Allocate(n.Var("p", "handle"), "int8", (n.IntImm("int32", 4),), n.IntImm("bool", 0), masked), "a condition"),
    ):
        with pytest.raises(IRError, match=what):
            made.with_body(stmt).script(tvm_version="0.27")
