"""Which dialects a text may be written in, and when they are loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from compiler.ir.text import Names
from compiler.script import dialect
from compiler.script.dialect import Dialect
from compiler.script.entry import from_source
from compiler.script.source import ScriptError
from compiler.tir import nodes as n

TEXT = """
@T.prim_func
def double(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            A[i:i + 4] = T.Broadcast(2.0, 4)
"""


def test_the_core_loads_no_dialect_until_a_text_needs_it() -> None:
    code = (
        "import sys\n"
        "from compiler.script.entry import from_source\n"
        "from compiler.script.saved import load_json, save_json\n"
        "loaded = [name for name in sys.modules if name.startswith(('compiler.tir', 'compiler.arith'))]\n"
        "assert not loaded, loaded\n"
        f"func = from_source({TEXT!r})\n"
        "print(load_json(save_json(func)).script())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == from_source(TEXT).script()


@pytest.fixture
def other() -> Iterator[Dialect]:
    made = Dialect("other", "Other", {"function": lambda source, node, captured: None}, {}.get, list)
    dialect.register(made)
    yield made
    dialect.unregister("other")


def test_a_registered_dialect_is_found_and_forgotten(other: Dialect) -> None:
    assert dialect.find("other") is other
    assert dialect.prefixes()["Other"] == "other"
    assert "@Other.function" in dialect.decorators()
    assert Names().of(n.Var("Other")) == "Other_1"
    dialect.unregister("other")
    assert dialect.find("other") is None
    assert Names().of(n.Var("Other")) == "Other"


def test_errors_name_what_every_dialect_accepts(other: Dialect) -> None:
    with pytest.raises(ScriptError) as caught:
        from_source("@I.ir_module\nclass Module:\n    def f():\n        pass\n")
    assert caught.value.hint == "decorate it with @T.prim_func or @R.function or @Other.function"


def test_imports_name_dialects(other: Dialect) -> None:
    assert isinstance(from_source(f"from tvm.script import tir as T, other as X\n{TEXT}"), n.PrimFunc)
    with pytest.raises(ScriptError, match=r"tvm\.script has no 'another'") as caught:
        from_source(f"from tvm.script import another\n{TEXT}")
    assert caught.value.hint == "it has: tir, relax, ir, other"
