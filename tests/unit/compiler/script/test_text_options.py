"""The options of `script` and `show`."""

from __future__ import annotations

import pytest

from compiler.ir.module import IRModule
from compiler.ir.object_path import ObjectPath
from compiler.ir.structural import assert_structural_equal
from compiler.script.entry import from_source
from tunefarm.script import tir as T


@T.prim_func
def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"note": "T.block here"})
    for i in range(4):
        B[i] = A[i] + T.exp(A[i])


def test_prefixes_are_renamed_outside_of_strings() -> None:
    text = twice.script(tir_prefix="X")
    assert "@X.prim_func" in text
    assert '"T.block here"' in text
    assert " T." not in text


def test_marks_stand_below_what_they_mark() -> None:
    store = twice.body.body
    lines = twice.script(obj_to_underline=[store, store.value.b]).splitlines()
    at = next(number for number, line in enumerate(lines) if "B[i] =" in line)
    assert {line.strip() for line in lines[at + 1 : at + 3]} == {
        "^" * len("B[i] = A[i] + T.exp(A[i])"),
        "^" * len("T.exp(A[i])"),
    }
    assert lines[at + 1].index("^") == lines[at].index("T.exp")


def test_lines_are_numbered() -> None:
    lines = twice.script(print_line_numbers=True).splitlines()
    assert [int(line.split()[0]) for line in lines] == [*range(1, len(lines) + 1)]


def test_what_is_accepted_only_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert twice.script(int_dtype="int64", black_format=False) == twice.script()
    twice.show(style="light", black_format=False, indent_spaces=2)
    shown = capsys.readouterr().out
    assert_structural_equal(from_source(shown), twice)


def test_paths_are_underlined() -> None:
    root = ObjectPath.root()
    stored = root.attr("body").attr("body")
    by_path = twice.script(path_to_underline=[stored, stored.attr("no_such")])
    assert by_path == twice.script(obj_to_underline=[stored.follow(twice)])
    assert "^^^^" in by_path
    module = IRModule({"twice": twice})
    function = root.attr("functions").map_value(module.get_global_var("twice"))
    assert function.follow(module) is module["twice"]
    assert root.attr("params").array_index(9).follow(twice) == twice.params
