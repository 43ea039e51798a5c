"""Suites: the built-in ones, and those of a file."""

import pytest

from tuner.bench.models import slower_kernels
from tuner.bench.series import model_of
from tuner.bench.suites import SUITES, SuiteError, find_suite
from tuner.errors import WorkloadError


def test_every_kernel_of_every_suite_is_a_function():
    for suite in SUITES.values():
        assert suite.kernels
        for kernel in suite.kernels:
            kernel.check()
    assert SUITES["cpu-quick"].kernels[0].prim_func().script()
    assert len(SUITES["conv-resnet50"].kernels) == 23


def test_a_suite_of_a_file(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text('kernels = ["matmul:8,8,8"]\nconfig = "untuned"\n')
    suite = find_suite(str(path))
    assert (suite.name, suite.config) == ("ours", "untuned")
    assert suite.to_json()["kernels"] == ["matmul:8,8,8:float32"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kernels = [", "not TOML"),
        ("kernels = []", "kernels is not a list"),
        ("name = 'x'", "kernels is not a list"),
        ("models = 'small.onnx'", "models is not a list"),
        ("models = ['none.onnx']", "there is no file"),
        ("kernels = ['matmul:8,8,8']\nconfig = 'fast'", "config is 'fast'"),
        ("kernels = ['matmul:8,8,8']\nrounds = 3", "unknown rounds"),
    ],
)
def test_a_bad_file_is_said(tmp_path, text, says):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SuiteError, match=says):
        find_suite(str(path))


def test_what_there_is_is_listed():
    with pytest.raises(SuiteError) as failed:
        find_suite("gem")
    assert "gemm" in str(failed.value.hint)
    with pytest.raises(SuiteError, match="cannot read"):
        find_suite("absent.toml")


def test_a_kernel_that_is_none(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("kernels = ['matmul:8,8']")
    with pytest.raises(WorkloadError, match="takes 3"):
        find_suite(str(path))


def test_models_are_files_beside_the_suite(tmp_path):
    (tmp_path / "small.onnx").write_bytes(b"")
    path = tmp_path / "ours.toml"
    path.write_text('models = ["small.onnx"]\n')
    suite = find_suite(str(path))
    assert suite.models == (tmp_path / "small.onnx",)
    assert suite.to_json()["models"] == ["small.onnx"]


def test_a_loss_is_traced_to_the_kernels_it_comes_from():
    before = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert slower_kernels(before, {"a": 1.0, "b": 2.0, "c": 1.05}) == [("b", 1.0, 2.0)]
    assert slower_kernels(before, {"a": 1.4, "b": 2.0, "c": 0.5, "d": 0.3}) == [
        ("b", 1.0, 2.0),
        ("a", 1.0, 1.4),
        ("d", 0.0, 0.3),
    ]
    assert slower_kernels(before, before) == []
    assert model_of("small.onnx:relu") == "small.onnx"
    assert model_of("matmul:8,8,8:float32") is None
