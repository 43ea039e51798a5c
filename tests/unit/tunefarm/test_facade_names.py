"""The public import: light, complete, and under TVM's names."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tunefarm

ROOT = Path(tunefarm.__file__).resolve().parents[1]
MODULES = [
    "auto_scheduler", "autotvm", "driver", "error", "instrument", "ir", "nd", "rpc", "runtime", "script",
    "target", "te", "tir", "topi", "transform",
]  # fmt: skip
HEAVY = ["numpy", "llvmlite", "sqlalchemy", "zmq", "msgspec", "fastapi", "rich", "click", "compiler", "rpc_server"]


def in_a_fresh_process(code: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **kwargs)


def test_importing_loads_nothing_heavy():
    code = f"import sys, json, tunefarm; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(in_a_fresh_process(code).stdout) == []


def test_looking_around_loads_nothing_heavy():
    code = (
        "import sys, json, tunefarm; names = dir(tunefarm); tunefarm.__version__\n"
        f"print(json.dumps([len(names), [m for m in {HEAVY} if m in sys.modules]]))"
    )
    count, loaded = json.loads(in_a_fresh_process(code).stdout)
    assert loaded == []
    assert count >= len(tunefarm.__all__)


@pytest.mark.parametrize("name", tunefarm.__all__)
def test_every_public_name_is_there(name):
    assert getattr(tunefarm, name) is not None
    assert name in dir(tunefarm)


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_a_module_is_there(name):
    module = importlib.import_module(f"tunefarm.{name}")
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(tunefarm.__file__).read_text())
    (guarded,) = [n for n in tree.body if isinstance(n, ast.If)]
    seen = {
        alias.asname: f"{node.module}:{alias.name}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(seen) == set(tunefarm.__all__)
    for name, where in seen.items():
        module, _, attribute = where.partition(":")
        if module == "tunefarm":
            assert getattr(tunefarm, name) is importlib.import_module(f"tunefarm.{attribute}")
        else:
            assert getattr(tunefarm, name) is getattr(importlib.import_module(module), attribute)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'tunefarm' has no attribute 'hago'"):
        tunefarm.hago


def test_errors_are_tvm_errors():
    assert tunefarm.TVMError is tunefarm.TunefarmError is tunefarm.error.TVMError
    assert issubclass(tunefarm.error.RPCError, tunefarm.TVMError)


@pytest.mark.parametrize("name", ["compiler", "tracker", "tuner"])
def test_another_package_of_the_same_name_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    paths = [str(tmp_path), str(ROOT)]
    code = f"import sys; sys.path[:0] = {paths}\ntry: import tunefarm\nexcept ImportError as e: print(e)"
    said = in_a_fresh_process(code).stdout
    assert f"needs its own package '{name}'" in said
    assert str(tmp_path / name) in said


def test_a_target_is_read_off_a_device_whatever_else_was_imported() -> None:
    done = in_a_fresh_process("import tunefarm as tvm; print(tvm.Target.from_device('cpu'))")
    assert done.stdout.startswith("llvm ")
