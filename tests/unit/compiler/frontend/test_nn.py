"""Modules written by hand: what they export, and that what is built computes what numpy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, IRError
from compiler.frontend import nn
from compiler.frontend.nn import op, spec
from compiler.relax.analysis import well_formed
from compiler.relax.interp import run
from compiler.relax.nodes import TensorStructInfo, TupleStructInfo
from compiler.runtime.core.ndarray import array
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.vm.builtins import VMError
from compiler.runtime.vm.kv_cache import append, clear, create, popn, view
from examples import decoder

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RNG.normal(size=shape).astype("float32")


class Apply(nn.Module):
    """One layer or function."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def computed(inner: Any, x: Any, weights: dict[str, Any] | None = None) -> Any:
    """Return a layer's result by the interpreter; `weights` are its parameters."""
    mod, parameters = Apply(inner).export_tvm({"forward": {"x": spec.Tensor(x.shape, str(x.dtype))}})
    assert well_formed(mod)
    given = [(weights or {})[name.removeprefix("inner.")] for name, _ in parameters]
    return run(mod, x, *given, func="forward")


def test_a_linear_layer_exports_its_parameters_after_the_input() -> None:
    mod, parameters = nn.Linear(4, 3).export_tvm({"forward": {"x": spec.Tensor(["n", 4], "float32")}})
    func = mod["forward"]
    assert [param.name_hint for param in func.params] == ["x", "weight", "bias"]
    assert [name for name, _ in parameters] == ["weight", "bias"]
    assert func.attrs["num_input"] == 1
    x, w, b = numbers(5, 4), numbers(3, 4), numbers(3)
    np.testing.assert_allclose(run(mod, x, w, b, func="forward"), x @ w.T + b, rtol=1e-5)


def test_layers_compute_what_numpy_does() -> None:
    x, weight, bias = numbers(2, 3, 8), numbers(8), numbers(8)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    layer = computed(nn.LayerNorm(8), x, {"weight": weight, "bias": bias})
    np.testing.assert_allclose(layer, (x - mean) / np.sqrt(var + 1e-5) * weight + bias, rtol=1e-4, atol=1e-5)
    rms = computed(nn.RMSNorm(8, bias=False), x, {"weight": weight})
    np.testing.assert_allclose(rms, x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight, rtol=1e-4)
    table, rows = numbers(6, 4), np.array([[0, 5], [2, 2]])
    np.testing.assert_array_equal(computed(nn.Embedding(6, 4), rows, {"weight": table}), table[rows])
    groups = computed(nn.GroupNorm(2, 4, affine=False), numbers(1, 4, 3))
    np.testing.assert_allclose(groups.reshape(2, -1).mean(-1), 0, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_of_one_tap_are_products(rank: int) -> None:
    layer = {1: nn.Conv1D, 2: nn.Conv2D, 3: nn.Conv3D}[rank](3, 5, 1)
    x, w, b = numbers(2, 3, *([4] * rank)), numbers(5, 3, *([1] * rank)), numbers(5)
    want = np.einsum("oi,ni...->no...", w.reshape(5, 3), x) + b.reshape(-1, *([1] * rank))
    np.testing.assert_allclose(computed(layer, x, {"weight": w, "bias": b}), want, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_has_its_size() -> None:
    x, w = numbers(1, 3, 5), numbers(3, 2, 4)
    made = computed(nn.ConvTranspose1D(3, 2, 4, stride=2, bias=False), x, {"weight": w})
    want = np.zeros((1, 2, 12), "float32")
    for place in range(5):
        want[:, :, 2 * place : 2 * place + 4] += np.einsum("ni,iok->nok", x[:, :, place], w)
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


FUNCTIONS: list[tuple[str, Any, Any]] = [
    ("arithmetic", lambda x: (x + 1) * 2 - x / 4, lambda x: (x + 1) * 2 - x / 4),
    ("number first", lambda x: 1 - 2 / (x * x + 1), lambda x: 1 - 2 / (x * x + 1)),
    ("where", lambda x: op.where(x > 0, x, 0.0), lambda x: np.maximum(x, 0)),
    ("split and concat", lambda x: op.concat(op.split(x, 2, 1)[::-1], 1), lambda x: np.roll(x, 2, 1)),
    ("permute", lambda x: op.permute(x, [1, 0]), np.transpose),
    ("reduce", lambda x: op.sum(x, axis=-1, keepdims=True), lambda x: x.sum(-1, keepdims=True)),
    ("softmax", lambda x: op.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ("squeeze", lambda x: op.squeeze(op.unsqueeze(x, 0), 0), lambda x: x),
    ("topk", lambda x: op.topk(x, 1)[0], lambda x: x.max(-1, keepdims=True)),
    ("full", lambda x: x + op.full([4], 2.0) + op.ones([1]) + op.zeros([4]), lambda x: x + 3),
    ("pad", lambda x: op.pad(x, [0, 1, 2, 0]), lambda x: np.pad(x, ((0, 1), (2, 0)))),
]


@pytest.mark.parametrize(("function", "want"), [row[1:] for row in FUNCTIONS], ids=[row[0] for row in FUNCTIONS])
def test_operators(function: Any, want: Any) -> None:
    x = numbers(3, 4)
    np.testing.assert_allclose(computed(function, x), want(x), rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------- modules and their specs


class Two(nn.Module):
    """Two layers, and a method for each way of passing parameters."""

    def __init__(self) -> None:
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2, bias=False)])

    def forward(self, x: Any) -> Any:
        return self.layers(x)

    def sums(self, x: Any, n: Any) -> Any:
        return x * n, op.sum(x)


def test_parameters_have_dotted_names_and_take_values() -> None:
    model = Two()
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert list(model.state_dict()) == names
    values = {name: numbers(*param.shape) for name, param in model.named_parameters()}
    assert model.load_state_dict(values) == ([], [])
    jitted = model.jit({"forward": {"x": spec.Tensor(["n", 4], "float32")}}, out_format="numpy")
    x = numbers(3, 4)
    want = (x @ values[names[0]].T + values[names[1]]) @ values[names[2]].T
    np.testing.assert_allclose(jitted["forward"](x), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(KeyError, match=r"layers\.0\.bias"):
        model.load_state_dict({"layers.0.weight": values["layers.0.weight"]})
    with pytest.raises(ArgumentError, match="was not exported"):
        jitted["sums"]


def test_parameters_may_come_as_one_tuple_or_not_at_all() -> None:
    given = {"x": spec.Tensor([1, 4], "float32"), "$": {"param_mode": "packed"}}
    mod, _ = Two().export_tvm({"forward": given})
    assert [param.name_hint for param in mod["forward"].params] == ["x", "packed_params"]
    assert isinstance(mod["forward"].params[1].struct_info, TupleStructInfo)
    bare, _ = Two().export_tvm(
        {"sums": {"x": spec.Tensor([4], "float32"), "n": int, "$": {"param_mode": "none"}}}
    )
    x = numbers(4)
    scaled, total = run(bare, x, (3,), func="sums")
    np.testing.assert_allclose(scaled, x * 3, rtol=1e-6)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5)


def test_a_name_in_shapes_is_one_dimension() -> None:
    class Add(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    mod, _ = Add().export_tvm({"forward": {"x": spec.Tensor(["n"], "float32"), "y": spec.Tensor(["n"], "float32")}})
    first, second = (param.struct_info for param in mod["forward"].params)
    assert isinstance(first, TensorStructInfo)
    assert first.dims == second.dims


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"foward": {}}, "no method"),
        ({"forward": {}}, "missing x"),
        ({"forward": {"x": "float32"}}, "has the spec"),
        ({"forward": {"x": int, "$": {"param_mode": "some"}}}, "param_mode"),
        ([], "a spec is a dict"),
    ],
)
def test_specs_that_do_not_fit_are_refused(raw: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Two().export_tvm(raw)


def test_misuse_is_refused() -> None:
    with pytest.raises(IRError, match="while no function is built"):
        op.relu(nn.Parameter([2]))
    with pytest.raises(ArgumentError, match="cannot hold"):
        nn.Parameter([2]).data = numbers(3)
    with pytest.raises(ArgumentError, match="have no value"):
        Two().jit({"forward": {"x": spec.Tensor([1, 4], "float32")}}, out_format="numpy")


# ------------------------------------------------------------------------------------------- state


def test_a_cache_grows_and_is_viewed_without_a_copy() -> None:
    rows = numbers(7, 3)
    cache = create(array(np.zeros((2, 3), "float32")), ShapeTuple((2, 3)), 0)
    early = None
    for row in rows:
        append(cache, array(row[None]))
        early = early or view(cache)
    np.testing.assert_array_equal(view(cache).numpy(), rows)
    np.testing.assert_array_equal(view(cache, ShapeTuple((4, 3))).numpy(), rows[:4])
    assert early is not None
    np.testing.assert_array_equal(early.numpy(), rows[:1])
    popn((cache,), 2)
    assert view(cache).shape == (5, 3)
    clear((cache,))
    assert view(cache).shape == (0, 3)
    for wrong in (lambda: append(cache, array(numbers(1, 4))), lambda: view(cache, ShapeTuple((1, 3)))):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(VMError, match="a cache of rows"):
        append(3, array(numbers(1, 3)))


def test_debugging_prints_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    class Prints(nn.Module):
        def forward(self, x: Any) -> Any:
            op.print_(x)
            op.print_(x + 1)
            return x

    given = {"forward": {"x": spec.Tensor([1], "float32")}}
    with pytest.raises(IRError, match="debug"):
        Prints().export_tvm(given)
    Prints().jit(given, out_format="numpy", debug=True)["forward"](np.array([1.0]))
    assert capsys.readouterr().out == "[1.]\n[2.]\n"


# ----------------------------------------------------------------------------------------- decoder


def reference(tokens: list[int], values: dict[str, Any]) -> Any:
    """The scores after all of `tokens` at once, with a causal mask and no cache."""

    def rms(x: Any, weight: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

    x, count = values["embedding.weight"][tokens], len(tokens)
    width = decoder.WIDTH // decoder.HEADS
    for index in range(decoder.LAYERS):
        own = {name.removeprefix(f"layers.{index}."): value for name, value in values.items()}
        mixed = rms(x, own["norm1.weight"]) @ own["attention.qkv.weight"].T
        q, k, v = (part.reshape(count, decoder.HEADS, width) for part in np.split(mixed, 3, -1))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width)
        scores = np.where(np.tri(count, dtype=bool), scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", share, v).reshape(count, -1) @ own["attention.out.weight"].T
        up = rms(x, own["norm2.weight"]) @ own["up.weight"].T + own["up.bias"]
        x = x + (up / (1 + np.exp(-up))) @ own["down.weight"].T + own["down.bias"]
    return (rms(x, values["norm.weight"]) @ values["head.weight"].T)[-1]


def test_the_decoder_of_the_examples_generates_what_a_whole_pass_would() -> None:
    """Twenty letters, more than the caches have room for at first."""
    text = decoder.generate("farm", 16)
    parameters = list(decoder.Decoder().named_parameters())
    values = dict(zip([name for name, _ in parameters], decoder.weights(parameters)))
    tokens = [decoder.LETTERS.index(letter) for letter in text]
    assert len(tokens) == 20
    for count in (4, 12, 19):
        assert int(np.argmax(reference(tokens[:count], values))) == tokens[count]
