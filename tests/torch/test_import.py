"""`from_exported_program` and `from_fx` beside the values: names, parameters, sizes, writes, errors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tunefarm as tvm
from compiler.errors import ArgumentError
from compiler.frontend.params import detach_params
from compiler.frontend.torch.errors import UnsupportedOperatorError
from compiler.frontend.torch.exported import from_exported_program
from compiler.frontend.torch.fx import from_fx
from compiler.frontend.torch.writes import plan_writes
from compiler.relax import op
from compiler.relax.nodes import Constant, TensorStructInfo, TupleStructInfo
from compiler.tir.nodes import Var
from tests.kit.cli.run import run_cli
from tests.kit.torch.agreement import Function, check, compare, imported, machine, results
from tests.kit.torch.vision import load_torchvision
from tunefarm import relay
from tunefarm.contrib import graph_executor
from tuner.kernels.model_version import model_source


class Small(torch.nn.Module):
    """A convolution and a linear layer, with a tensor that both share and a constant."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 4)
        self.linear.bias = self.conv.bias
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: Any) -> Any:
        y = torch.relu_(self.norm(self.conv(x)))
        y += 1
        return self.linear(y.mean((2, 3))) + self.shift * torch.tensor(2.0)


def image(batch: int = 2) -> Any:
    return torch.randn(batch, 3, 6, 6)


def main(mod: Any) -> Any:
    return mod["main"]


def test_a_model_agrees_and_its_weights_are_constants() -> None:
    model = Small().eval()
    mod = check(model, (image(),))
    assert [param.name_hint for param in main(mod).params] == ["x"]
    assert main(mod).attrs["num_input"] == 1


def test_weights_share_memory_and_tied_ones_are_one_constant() -> None:
    model = Small().eval()
    mod = imported(model, (image(),))
    held = {
        arg.array.ctypes.data
        for block in main(mod).body.blocks
        for binding in block.bindings
        for arg in getattr(binding.value, "args", ())
        if isinstance(arg, Constant)
    }
    assert model.conv.weight.data_ptr() in held
    assert model.linear.bias.data_ptr() in held


def test_params_may_stay_inputs() -> None:
    model = Small().eval()
    mod = imported(model, (image(),), keep_params_as_input=True)
    plain, params = detach_params(mod)
    names = [param.name_hint for param in main(plain).params]
    assert names[0] == "x"
    assert "p_conv_weight" in names
    assert "b_shift" in names
    assert "params" not in main(plain).attrs
    x = image()
    out = machine(plain)["main"](x.numpy(), *params["main"])
    np.testing.assert_allclose(out[0].numpy(), model(x).detach().numpy(), 1e-5, 1e-5)


def test_the_forms_of_a_result() -> None:
    model, x = Small().eval(), (image(),)
    assert isinstance(main(imported(model, x)).ret_struct_info, TupleStructInfo)
    assert isinstance(main(imported(model, x, unwrap_unit_return_tuple=True)).ret_struct_info, TensorStructInfo)
    assert isinstance(main(imported(model, x, no_bind_return_tuple=True)).ret_struct_info, TupleStructInfo)


def test_sizes_stay_symbolic_and_keep_their_ranges() -> None:
    model = Small().eval()
    mod = imported(model, (image(),), ({0: torch.export.Dim("batch", min=1, max=9)},))
    (name,) = main(mod).attrs["tir_var_upper_bound"]
    assert main(mod).attrs["tir_var_upper_bound"][name] == 9
    assert main(mod).attrs["tir_var_lower_bound"][name] == 1
    vm = machine(mod)
    for batch in (1, 4, 9):
        compare(vm, model, (image(batch),))


def test_sizes_are_computed_with() -> None:
    def halves(x: Any) -> Any:
        rows = x.shape[0]
        first = x[: rows // 2]
        return torch.cat([first, x]).reshape(-1, 2), x * rows, torch.arange(rows) + 1, x.new_zeros(rows * 2, 3)

    dynamic = {0: 2 * torch.export.Dim("half", min=2, max=64)}
    vm = machine(imported(halves, (torch.randn(6, 4),), (dynamic,)))
    for rows in (4, 6, 10):
        compare(vm, Function(halves), (torch.randn(rows, 4),))


# ---------------------------------------------------------------------------------------- writes


def in_place(x: Any) -> Any:
    y = x * 2
    y.add_(1).relu_()
    y += x
    return y


def through_a_view(x: Any) -> Any:
    y = x * 2
    view = y[0]
    view.mul_(3)
    y.view(-1)[1:3] = 7
    return y + 1, view


def before_a_view(x: Any) -> Any:
    y = torch.relu_(x + 1)
    return y.view(-1), y.add(2)


def used_before_written(x: Any) -> Any:
    y = x + 1
    z = y * 2
    y.add_(5)
    return y, z


def through_views_of_views(x: Any) -> Any:
    y = x * 2
    rows, turned = y[1:], y.t()
    rows[:, 1:3].fill_(7)
    turned[0].add_(1)
    y.view(2, -1).unsqueeze(1).permute(2, 1, 0)[3].mul_(5)
    rows.squeeze(0)[..., ::2].relu_()
    return y, rows, turned.clone()


def of_what_may_be_a_copy(x: Any) -> Any:
    y = x * 2
    z = y.t().reshape(-1)
    z.add_(1)
    return y, z


WRITES = [in_place, before_a_view, used_before_written, through_a_view, through_views_of_views, of_what_may_be_a_copy]


@pytest.mark.parametrize("function", WRITES)
def test_writes_are_resolved(function: Any) -> None:
    check(function, (torch.randn(3, 4),))


@pytest.mark.parametrize("function", WRITES)
def test_only_writes_to_what_may_be_a_copy_need_torch(function: Any) -> None:
    program = torch.export.export(Function(function), (torch.randn(3, 4),))
    assert (plan_writes(program.graph) is None) == (function is of_what_may_be_a_copy)


def test_writes_through_random_views_are_resolved() -> None:
    """Random views of views, written and read in random order."""
    views = [
        lambda t: t[1:], lambda t: t[..., :-1], lambda t: t[0] if t.dim() > 1 else t, lambda t: t.transpose(0, -1),
        lambda t: t.unsqueeze(1), lambda t: t[..., ::2], lambda t: t.permute(*range(1, t.dim()), 0),
    ]  # fmt: skip
    writes = [lambda t: t.add_(1), lambda t: t.mul_(-2), lambda t: t.zero_(), lambda t: t.fill_(3)]
    for seed in range(8):
        rng = random.Random(seed)
        steps = [(rng.random() < 0.6, rng.randrange(100), rng.randrange(100)) for _ in range(10)]

        def function(x: Any, steps: Any = steps) -> Any:
            known = [x * 2]
            for makes, which, where in steps:
                tensor = known[where % len(known)]
                if not makes:
                    writes[which % len(writes)](tensor)
                elif (made := views[which % len(views)](tensor)).numel():
                    known.append(made)
            return [tensor + 0 for tensor in known]

        inputs = (torch.randn(4, 5, 6),)
        assert plan_writes(torch.export.export(Function(function), inputs).graph) is not None
        check(function, inputs)


class Counter(torch.nn.Module):
    """Keeps a sum of what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total.add_(x)
        return self.total * 2


def test_state_comes_in_and_goes_out() -> None:
    mod = imported(Counter(), (torch.ones(3),))
    assert main(mod).attrs["mutated"] == ("b_total",)
    plain, params = detach_params(mod)
    vm = machine(plain)
    out, total = vm["main"](np.full(3, 2, "float32"), *params["main"])
    np.testing.assert_array_equal(total.numpy(), [2, 2, 2])
    out, total = vm["main"](np.full(3, 5, "float32"), total)
    np.testing.assert_array_equal(out.numpy(), [14, 14, 14])


def test_an_input_that_is_written_is_a_result() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(y)
        return x * y

    mod = imported(function, (torch.ones(3), torch.ones(3)))
    out, changed = results(machine(mod), (torch.ones(3), torch.full((3,), 2.0)))
    np.testing.assert_array_equal(out, [6, 6, 6])
    np.testing.assert_array_equal(changed, [3, 3, 3])


# ---------------------------------------------------------------------------------------- errors


def test_all_that_is_not_supported_is_one_error_before_anything_is_built() -> None:
    def function(x: Any) -> Any:
        return torch.fft.rfft(x).abs() + torch.fft.irfft(torch.fft.rfft(x))[:3], torch.nonzero(x), torch.special.i0(x)

    with pytest.raises(UnsupportedOperatorError) as caught:
        imported(function, (torch.ones(4),))
    operators = caught.value.detail["operators"]
    assert {"aten._fft_r2c.default", "aten.nonzero.default", "aten.i0.default"} <= set(operators)
    assert operators["aten.nonzero.default"] == ["nonzero"]
    assert "nonzero" in str(caught.value)
    assert isinstance(caught.value, NotImplementedError)


def test_arguments_that_are_not_supported_are_collected() -> None:
    def function(x: Any) -> Any:
        return torch.nn.functional.avg_pool2d(x, 2, divisor_override=3) + 1, x[x > 0]

    with pytest.raises(UnsupportedOperatorError) as caught:
        imported(function, (torch.ones(1, 1, 4, 4),))
    assert "divisor_override" in str(caught.value)
    assert "the data" in str(caught.value)


def test_a_model_that_trains_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"model\.eval\(\)"):
        imported(torch.nn.Sequential(torch.nn.Dropout(0.5)).train(), (torch.ones(3),))


def test_own_converters() -> None:
    mod = from_exported_program(
        torch.export.export(Function(torch.special.i0), (torch.ones(3),)),
        custom_convert_map={"special_i0.default": _identity, "i0.default": _identity},
    )
    np.testing.assert_array_equal(results(machine(mod), (torch.full((3,), 2.0),))[0], [4, 4, 4])


def _identity(node: Any, importer: Any) -> Any:
    x = importer.value(node.args[0])
    return op.multiply(x, x)


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ArgumentError, match="ExportedProgram"):
        from_exported_program(Small())
    with pytest.raises(ArgumentError, match="GraphModule"):
        from_fx(Small(), [])


# -------------------------------------------------------------------------------------------- fx


def test_an_fx_graph() -> None:
    model = Small().eval()
    mod = from_fx(torch.fx.symbolic_trace(model), [((2, 3, 6, 6), "float32")])
    assert [param.name_hint for param in main(mod).params] == ["inp_0"]
    assert isinstance(main(mod).ret_struct_info, TensorStructInfo)
    compare(machine(mod), model, (image(),))


def test_an_fx_graph_of_symbolic_sizes() -> None:
    model, batch = Small().eval(), Var("batch", "int64")
    mod = from_fx(torch.fx.symbolic_trace(model), [((batch, 3, 6, 6), "float32")])
    info = main(mod).params[0].struct_info
    assert info.dims[0] is batch
    vm = machine(mod)
    for size in (1, 5):
        compare(vm, model, (image(size),))


def test_an_fx_graph_of_methods_and_functions() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.add(x, y).view(-1).softmax(0), x.size(0)

    mod = from_fx(torch.fx.symbolic_trace(function), [((2, 3), "float32"), ((3,), "float32")])
    out = machine(mod)["main"](np.ones((2, 3), "float32"), np.ones(3, "float32"))
    np.testing.assert_allclose(out[0].numpy(), np.full(6, 1 / 6), rtol=1e-6)


def test_relay_imports_under_the_names_given() -> None:
    model = torch.nn.Linear(3, 2).eval()
    given = torch.rand(4, 3)
    mod, params = relay.frontend.from_pytorch(torch.export.export(model, (given,)), [("data", (4, 3))])
    assert len(params) == 2
    module = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    module.run(data=given.numpy())
    np.testing.assert_allclose(module.get_output(0).numpy(), model(given).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_exported_file_is_run_by_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.rand(4, 3),)), path)
    done = run_cli(capfd, "run", str(path), "--compare", "reference", "--repeat", "0")
    assert done.code == 0, done.text
    assert "4 × 2" in done.out
    path.write_bytes(b"nothing")
    assert "torch cannot read" in run_cli(capfd, "run", str(path)).err


def test_a_model_of_torchvision_is_exported_once_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_torchvision()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = model_source("torchvision:squeezenet1_1")
    assert (first.name, first.form) == ("squeezenet1_1", "pt2")
    assert model_source("torchvision:squeezenet1_1").digest == first.digest
    with pytest.raises(ArgumentError, match="has no model 'squeeze'"):
        model_source("torchvision:squeeze")
