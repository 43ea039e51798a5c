"""Scheduled and lowered functions as two versions of Apache TVM print them are read, as the same functions.

The functions are results of schedule primitives and passes. TVM 0.17 printed them; TVM 0.27 read these texts, with its
own names of blocks, and printed them again.
"""

from __future__ import annotations

import json

import pytest

from compiler.ir.structural import assert_structural_equal
from compiler.script.entry import from_source
from compiler.script.source import ScriptError
from tests.kit.places import TESTS

OLDER, NEWER = (
    json.loads((TESTS / "data" / "tvm_texts" / f"scheduled_{version}.json").read_text())["texts"]
    for version in ("0_17", "0_27")
)


@pytest.mark.parametrize("name", OLDER)
def test_both_texts_are_one_function(name):
    older, newer = from_source("\n".join(OLDER[name])), from_source("\n".join(NEWER[name]))
    assert_structural_equal(older, newer)
    assert_structural_equal(from_source(older.script()), older)


def test_memory_that_is_no_blocks():
    text = "\n".join(NEWER["loweropaque"])
    assert "T.alloc_buffer" in text
    assert "T.allocate" in from_source(text).script()
    assert "T.allocate" not in from_source(text.replace("T.alloc_buffer", "T.sblock_alloc_buffer")).script()


def test_attributes_in_two_spellings():
    text = "\n".join(NEWER["decorate"])
    assert 'T.attr({"device_scope": 0})' in text
    with pytest.raises(ScriptError, match=r"T\.attr takes a node"):
        from_source(text.replace('{"device_scope": 0}', '{"device_scope": 0, "other": 1}'))


def test_an_external_call_with_its_dtype_last():
    def text(call):
        return f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    T.evaluate(T.call_extern({call}))
"""

    newer = from_source(text('"int32", "work", A.data, 4'))
    assert_structural_equal(from_source(text('"work", A.data, 4, dtype="int32"')), newer)
