"""`tunefarm.testing`: comparing arrays, and tests for parameters and targets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import testing

number = testing.parameter(1, 2, 3)
named = testing.parameter(by_dict={"one": 1, "two": 2})
low, high = testing.parameters((1, 10), (2, 20))
made: list[int] = []


@testing.fixture(cache_return_value=True)
def made_for_a_size(low: int) -> list[int]:
    made.append(low)
    return [low]


@testing.fixture(cache_return_value=True)
def made_once() -> list[int]:
    made.append(0)
    return [0]


def test_arrays_are_compared() -> None:
    array = tvm.nd.array(np.arange(3, dtype="float32"))
    testing.assert_allclose(array, [0, 1, 2])
    testing.assert_allclose(1.0, 1.0 + 1e-9)
    with pytest.raises(AssertionError):
        testing.assert_allclose(array, [0, 1, 2.1])
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.zeros((2, 1)), np.zeros(2))


def test_a_parameter_takes_each_value(number: int, request: pytest.FixtureRequest) -> None:
    assert number in (1, 2, 3)
    mine = [item.name for item in request.session.items if item.name.startswith(request.node.originalname)]
    assert len(mine) == len({*mine}) == 3, "whichever process runs them"


def test_named_values(named: int, request: pytest.FixtureRequest) -> None:
    assert {1: "[one]", 2: "[two]"}[named] in request.node.name


def test_parameters_vary_together(low: int, high: int, request: pytest.FixtureRequest) -> None:
    assert (low, high) in ((1, 10), (2, 20))
    mine = [item.name for item in request.session.items if item.name.startswith(request.node.originalname)]
    assert len(mine) == len({*mine}) == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_cached_fixture_is_made_for_each_value(made_for_a_size: list[int], low: int, again: bool) -> None:
    assert made_for_a_size == [low]
    assert made.count(low) == 1


@pytest.mark.parametrize("turn", [0, 1])
def test_a_cached_fixture_is_made_once(made_once: list[int], turn: int) -> None:
    assert turn in (0, 1)
    assert made_once == [0]
    assert made.count(0) == 1


@testing.parametrize_targets("llvm", "cuda")
def test_each_target_has_its_device(target: str, dev: tvm.runtime.Device) -> None:
    assert dev.exist
    assert target in ("llvm", "cuda")


@testing.parametrize_targets
def test_targets_are_llvm_and_cuda_unless_said(target: str, dev: tvm.runtime.Device) -> None:
    assert (target, dev) in testing.enabled_targets()


@testing.requires_llvm
def test_llvm_is_there() -> None:
    assert testing.device_enabled("llvm -mcpu=skylake")
    assert not testing.device_enabled("opencl")


@testing.requires_package("no_such_package")
def test_a_missing_package_skips() -> None:
    raise AssertionError


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match="by_dict"):
        testing.parameter(1, by_dict={"a": 1})
    with pytest.raises(ValueError, match="sizes"):
        testing.parameters((1, 2), (3,))


def test_main_runs_the_file(tmp_path: Path) -> None:
    script = tmp_path / "test_it.py"
    script.write_text(
        "import tunefarm.testing\ndef test_a(): assert 1\nif __name__ == '__main__': tunefarm.testing.main()\n"
    )
    done = subprocess.run([sys.executable, script, "-q", "-p", "no:cacheprovider"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
