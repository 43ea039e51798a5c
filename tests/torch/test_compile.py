"""The backend of `torch.compile`: values, what stays with torch, sizes, layouts, the cache, options, reports."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler.frontend.torch.compile.backend as compile_backend
from compiler.errors import ArgumentError
from compiler.frontend.torch.compile.store import Store
from rpc_server.box.server import Server
from tests.kit.farm.tracker import CALM
from tests.kit.places import ROOT
from tests.kit.web import running_app
from tracker.server import Tracker
from tunefarm.client import Client
from tunefarm.contrib.torch_backend import backend, clear_reports, reports
from tuner.records.store import RecordStore


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Each test begins with nothing compiled and nothing reported."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    clear_reports()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, options={"cache": "", **options})


def check(function: Any, *inputs: Any, **options: Any) -> None:
    """Fail unless a compiled function gives what eager does, laid out alike, for one input after the other."""
    made = compiled(function, **options)
    with torch.no_grad():
        for given in inputs:
            want = function(*[x.clone() if isinstance(x, torch.Tensor) else x for x in given])
            got = made(*given)
            for ours, theirs in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)]):
                if not isinstance(theirs, torch.Tensor):
                    assert ours == theirs
                    continue
                assert ours.stride() == theirs.stride()
                torch.testing.assert_close(ours, theirs)


def test_a_graph_is_one_part_whose_results_lie_as_torch_lays_them() -> None:
    check(lambda x, y: ((x @ y).relu().t(), x.shape[0], (x + 1).sum()), (torch.randn(3, 4), torch.randn(4, 5)))
    (report,) = reports()
    assert (report.regions, dict(report.kept), report.breaks) == (1, {}, ())


def test_sizes_may_change() -> None:
    def halves(x: Any) -> Any:
        return torch.cat([x[: x.shape[0] // 2], x]) * x.shape[0], x.shape[0] * 2

    inputs = [(torch.randn(rows, 4),) for rows in (4, 6, 10, 7)]
    check(halves, *inputs)
    assert len(reports()) == 2  # the first size, then any


def test_what_is_not_covered_stays_with_torch() -> None:
    def mixed(x: Any, y: Any) -> Any:
        spectrum = torch.fft.rfft(torch.relu(x) * 3).abs()
        return spectrum.sum(-1) + (torch.relu(x + y) * 2).mean(-1)

    check(mixed, (torch.randn(4, 6), torch.randn(4, 6)))
    (report,) = reports()
    assert report.regions >= 1
    assert dict(report.kept) == {"aten._fft_r2c.default": ["_fft_r2c"]}
    assert "with torch: aten._fft_r2c.default" in str(report)


def test_graph_breaks_are_told() -> None:
    def breaks(x: Any) -> Any:
        y = torch.relu(x) * 3
        return y.cos() + 1 if y.sum() > 0 else y.sin() - 1

    check(breaks, (torch.randn(4, 6),))
    assert [len(report.breaks) for report in reports()] == [1, 0]
    assert "branching" in reports()[0].breaks[0]


def test_tensors_that_lie_elsewhere_or_scattered_are_taken() -> None:
    whole = torch.randn(9, 8)
    add = compiled(lambda x, y: x * 2 + y)
    with torch.no_grad():
        for x in (whole[1:5, :4], whole.t()[:4, 1:5], whole.reshape(-1)[1:17].view(4, 4)):
            torch.testing.assert_close(add(x, torch.ones(4, 4)), x * 2 + 1)


def test_constants_outlive_the_compilation() -> None:
    def function(x: Any) -> Any:
        table = torch.tensor([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])
        return x @ table, torch.arange(1000.0).sin() * x.sum()

    made, x = compiled(function), torch.randn(4, 2)
    with torch.no_grad():
        for _ in range(3):
            gc.collect()
            torch.randn(100, 1000)  # takes memory that was given back
            for ours, theirs in zip(made(x), function(x)):
                torch.testing.assert_close(ours, theirs)
    assert dict(reports()[0].kept) == {}


def test_writes_to_inputs_and_buffers_are_seen() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.total.add_(x * 2)
            x.mul_(3)
            return self.total + x

    model = Counter()
    made = compiled(model)
    x = torch.ones(3)
    with torch.no_grad():
        made(x)
        torch.testing.assert_close(made(x), torch.full((3,), 17.0))
    torch.testing.assert_close(model.total, torch.full((3,), 8.0))
    torch.testing.assert_close(x, torch.full((3,), 9.0))


def test_weights_may_change_after_compilation() -> None:
    model = torch.nn.Linear(4, 3)
    made, x = compiled(model), torch.randn(2, 4)
    with torch.no_grad():
        made(x)
        model.weight.mul_(2)
        torch.testing.assert_close(made(x), model(x))
    assert len(reports()) == 1


def test_models_that_train_stay_with_torch() -> None:
    model = torch.nn.Linear(4, 3)
    compiled(model)(torch.ones(2, 4)).sum().backward()
    torch.testing.assert_close(model.bias.grad, torch.full((3,), 2.0))
    assert {report.regions for report in reports()} == {0}
    assert "trains" in str(reports()[0])


def test_a_second_process_would_find_the_code_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return torch.tanh(x) @ x

    check(function, (torch.randn(4, 4),), cache=str(tmp_path))
    torch._dynamo.reset()
    with monkeypatch.context() as patch:
        patch.setattr(compile_backend, "build_graph", None)
        check(function, (torch.randn(4, 4),), cache=str(tmp_path))
    assert [report.cached for report in reports()] == [0, 1]
    (path,) = tmp_path.glob("*.tunefarm")
    path.write_bytes(path.read_bytes()[:100])
    torch._dynamo.reset()
    check(function, (torch.randn(4, 4),), cache=str(tmp_path))
    assert reports()[-1].cached == 0


def test_the_store_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Saved:
        def save(self, path: str) -> None:
            Path(path).write_text("")

    monkeypatch.setattr("compiler.frontend.torch.compile.store.MOST_FILES", 2)
    made: Any = Saved()
    for name in "abc":
        Store(tmp_path).find_or_build(name, lambda: made)
    assert len(list(tmp_path.iterdir())) == 2


def test_options_are_checked() -> None:
    for options, message in (
        ({"trails": 3}, "trials"),
        ({"trials": "3"}, "no int"),
        ({"trials": -1}, "-1"),
        ({"tracker": "h:1"}, "key"),
    ):
        with pytest.raises(ArgumentError) as caught:
            backend(None, [], options=options)
        assert message in f"{caught.value} {caught.value.hint}"


def test_torch_finds_the_backend_by_its_name() -> None:
    assert "tunefarm" in torch._dynamo.list_backends()


def test_trials_schedule_kernels(tmp_path: Path) -> None:
    check(lambda x, y: (x @ y).relu(), (torch.randn(64, 64), torch.randn(64, 64)), cache=str(tmp_path), trials=2)
    assert reports()[0].regions == 1
    assert any(file.stat().st_size for file in (tmp_path / "records").iterdir())


def test_trials_are_measured_on_devices_of_a_tracker(tmp_path: Path) -> None:
    with Tracker("127.0.0.1", port=0, silent=True, timing=CALM) as tracker:
        address = ("127.0.0.1", tracker.port)
        with Server("127.0.0.1", port=0, silent=True, key="lab", tracker_addr=address):
            check(
                lambda x, y: (x @ y).relu(), (torch.randn(64, 64), torch.randn(64, 64)),
                cache=str(tmp_path), trials=2, tracker=f"127.0.0.1:{tracker.port}", key="lab",
            )  # fmt: skip
    assert reports()[0].regions == 1
    assert any(file.stat().st_size for file in (tmp_path / "records").iterdir())


def test_the_web_app_is_asked_for_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    best_batch = Client.best_batch

    def seen(self: Client, kernels: Any, *args: Any, **kwargs: Any) -> Any:
        asked.extend(str(kernel.attrs.get("global_symbol")) for kernel in kernels)
        return best_batch(self, kernels, *args, **kwargs)

    monkeypatch.setattr(Client, "best_batch", seen)
    with RecordStore.open(str(tmp_path / "farm.db"), create=True) as store, running_app(store) as address:
        api = address if address.startswith("http") else f"http://{address}"
        check(lambda x, y: (x @ y).relu(), (torch.randn(64, 64), torch.randn(64, 64)), cache="", api=api)
    assert len(asked) == 1
    assert reports()[0].regions == 1


def test_the_example_runs(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TUNEFARM_TORCH_CACHE": str(tmp_path)}
    command = [sys.executable, str(ROOT / "examples" / "torch_compile.py")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "batch 8" in done.stdout
    assert "1 compiled" in done.stderr
    assert len(list(tmp_path.iterdir())) == 1
