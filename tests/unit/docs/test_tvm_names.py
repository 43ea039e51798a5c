"""The table of Apache TVM's names is that of the code, and what it refuses is refused with its reason."""

from __future__ import annotations

import importlib

import pytest

from tests.kit.places import DOCS
from tests.kit.tvm_names.page import page
from tests.kit.tvm_names.standing import field, standings
from tunefarm.compatibility import REFUSED, why_not


def test_the_page_is_the_one_that_the_code_makes() -> None:
    written = (DOCS / "tvm-compatibility.md").read_text()
    assert written == page(), "run python -m tests.kit.tvm_names.page > docs/tvm-compatibility.md"


def test_every_reason_is_for_a_name_that_is_not_here() -> None:
    needed = {row.name for row in standings() if row.state == "refuses"}
    paths = {*needed, *field()["modules"].split()}
    others = ("contrib", "driver", "exec", "testing", "topi")  # not in the table
    listed = [name for name in REFUSED if name.partition(".")[0] not in others]
    unused = [name for name in listed if not any(path == name or path.startswith(f"{name}.") for path in paths)]
    assert unused == []


@pytest.mark.parametrize("name", ["tir.usmp.BufferInfo", "target.vta", "autotvm.apply_graph_best", "rpc.PopenSession"])
def test_a_program_that_asks_for_a_refused_name_reads_why(name: str) -> None:
    space, _, last = name.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(f"tunefarm.{space}"), last)
    assert str(why_not(name)) in str(caught.value)
