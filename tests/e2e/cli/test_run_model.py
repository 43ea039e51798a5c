"""`tunefarm run`: a model built, run, timed, profiled, compared, here and on a box."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rpc_server.box.server import Server
from tests.kit.cli.run import run_cli
from tunefarm import relax
from tunefarm.relax.frontend.onnx import from_onnx

WEIGHT = np.random.default_rng(0).standard_normal((512, 3), dtype=np.float32) / 20


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ends = {"x": ["n", 512], "y": ["n", 3]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in ends.items())
    nodes = [
        helper.make_node("Neg", ["x"], ["negated"]),
        helper.make_node("MatMul", ["negated", "w"], ["product"], name="project"),
        helper.make_node("Softmax", ["product"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def want(x: np.ndarray) -> np.ndarray:
    powers = np.exp(-x @ WEIGHT)
    return powers / powers.sum(-1, keepdims=True)


def test_a_model_is_run_and_its_results_are_kept(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(1).random((5, 512), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    given = ["run", str(model), "--input", f"x={tmp_path / 'x.npy'}", "--out", str(tmp_path / "results")]
    done = run_cli(capfd, *given, "--compare", "reference", "--profile", "--trace", str(tmp_path / "trace.json"))
    assert done.code == 0, done.text
    assert "5 × 3" in done.out
    assert "y agrees" in done.out
    assert "matmul" in done.out
    np.testing.assert_allclose(np.load(tmp_path / "results" / "y.npy"), want(x), rtol=1e-4)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_first_operator_that_differs_is_named(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exactly = ["--rtol", "0", "--atol", "0", "--bisect", "--json", "--repeat", "0", "--dim", "n=7"]
    done = run_cli(capfd, "run", str(model), "--compare", "onnxruntime", *exactly)
    found = json.loads(done.out)
    assert done.code == 4  # sums are taken in another order
    assert found["first_difference"]["node"] == "project"
    assert 0 < found["first_difference"]["difference"]["absolute"] < 1e-4
    assert run_cli(capfd, "run", str(model), "--compare", "onnxruntime", "--dim", "n=7").code == 0


def test_an_artifact_runs_on_a_box(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "built.tunefarm"
    relax.build(from_onnx(str(model)), "llvm").export_library(str(path))
    with Server(port=0, silent=True) as server:
        device = f"127.0.0.1:{server.port}"
        for file in (path, model):
            sizes = ["--dim", "n=2", "--repeat", "2", "--json", "--seed", "3"]
            there = run_cli(capfd, "run", str(file), *sizes, "--device", device)
            assert there.code == 0, there.text
            here = run_cli(capfd, "run", str(file), *sizes)
            first, second = (next(iter(json.loads(done.out)["outputs"].values())) for done in (there, here))
            assert first["shape"] == second["shape"] == [2, 3]
            assert first["mean"] == pytest.approx(second["mean"])
            assert len(json.loads(there.out)["seconds"]) == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["{model}"], "--dim n=SIZE"),
        (["{model}", "--dim", "m=2"], "no symbolic variable 'm'"),
        (["{model}", "--dim", "n=many"], "whole number"),
        (["{model}", "--dim", "n=2", "--input", "z=zeros"], "no input 'z'"),
        (["{model}", "--dim", "n=2", "--input", "x=x.txt"], "ends in .npy"),
        (["{model}", "--dim", "n=2", "--input", "x=none.npy"], "there is no file none.npy"),
        (["{model}", "--bisect"], "--bisect goes with"),
        (["none.onnx"], "there is no file none.onnx"),
        (["spec.py"], "which model of spec.py?"),
        (["{model}.tunefarm", "--compare", "reference"], "needs the model's own file"),
    ],
)
def test_what_is_wrong_is_said(
    model: Path, args: list[str], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("spec.py").touch()
    done = run_cli(capfd, "run", *(arg.format(model=model) for arg in args))
    assert done.code in (1, 2)
    assert says in done.err
    assert "Traceback" not in done.err
