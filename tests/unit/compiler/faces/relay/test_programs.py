"""Programs of Relay: expressions, text, analysis, builds, executors and networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.ir.structural import structural_equal, structural_hash
from compiler.relax.interp import run
from tunefarm import relay
from tunefarm.contrib import graph_executor
from tunefarm.contrib.debugger import debug_executor
from tunefarm.relay.testing import create_workload, dcgan, densenet, mlp, mobilenet, resnet, squeezenet, vgg

Array = np.ndarray[Any, Any]


def _network() -> Any:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    b = relay.var("b", shape=(4,))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3)), b))
    return relay.Function([x, w, b], relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)) * relay.const(2.0))


def _values(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3), "b": (4,)}
    return {name: rng.standard_normal(shape, dtype="float32") for name, shape in shapes.items()}


def _want(values: dict[str, Array]) -> Array:
    return run(relay.to_relax(_network()), *values.values())  # type: ignore[return-value,arg-type]


# --------------------------------------------------------------------------------- expressions


def test_text_of_a_function() -> None:
    x, y = relay.var("x", shape=(2, relay.Any())), relay.var("x", "float32")
    total = relay.add(x, y)
    func = relay.Function([x, y], relay.Tuple([relay.split(total, 2)[0], total + 1]))
    assert func.astext() == (
        "fn (%x: Tensor[(2, ?), float32], %x_1: float32) {\n"
        "  %0 = add(%x, %x_1);\n"
        "  %1 = split(%0, indices_or_sections=2, axis=0);\n"
        "  %2 = %1.0;\n"
        "  %3 = add(%0, const(1, int32));\n"
        "  (%2, %3)\n"
        "}"
    )


def test_structure_is_compared() -> None:
    assert structural_equal(_network(), _network())
    assert structural_hash(_network()) == structural_hash(_network())
    x = relay.var("x", shape=(2,))
    assert not structural_equal(relay.Function([x], x + x), relay.Function([x], x - x))


def test_types() -> None:
    func = _network()
    assert str(func.body.checked_type) == "Tensor[(1, 4), float32]"
    assert func.body.checked_type.concrete_shape == (1, 4)
    assert str(func.checked_type).endswith("-> Tensor[(1, 4), float32]")
    assert relay.transform.InferType()(tvm.IRModule.from_expr(func))["main"] is func
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(IRError, match=r"relay.nn.dense.*3 and 4"):
        relay.nn.dense(x, relay.var("w", shape=(5, 4))).checked_type
    with pytest.raises(TypeError, match=r"relay.clip"):
        relay.clip(x)  # type: ignore[attr-defined]


def test_free_variables() -> None:
    x, y, z = (relay.var(name, shape=(2,)) for name in "xyz")
    expr = relay.Let(y, x + x, relay.Function([z], z * y)(x))
    assert relay.analysis.free_vars(expr) == [x]
    assert set(relay.analysis.all_vars(expr)) == {x, y, z}
    assert set(relay.analysis.bound_vars(expr)) == {y, z}
    assert relay.analysis.well_formed(expr)
    assert not relay.analysis.well_formed(relay.Let(y, x, relay.Let(y, x, y)))
    t = relay.TypeVar("t")
    assert relay.analysis.free_type_vars(relay.Function([relay.var("a", t)], x)) == [t]
    assert relay.analysis.free_type_vars(relay.Function([relay.var("a", t)], x, None, [t])) == []
    assert relay.analysis.free_type_vars(relay.FuncType([t], relay.TupleType([t]))) == [t]


def test_conditions_lets_and_functions_run() -> None:
    c, x, y, f = relay.var("c", "bool"), relay.var("x", shape=(3,)), relay.var("y"), relay.var("f")
    inner = relay.var("i", shape=(3,))
    body = relay.Let(y, relay.exp(x), relay.If(c, y + x, relay.Function([inner], inner * inner)(y)))
    data = np.array([0.5, -1.0, 2.0], "float32")
    run_it = relay.create_executor("debug").evaluate(relay.Function([c, x], body))
    np.testing.assert_allclose(run_it(np.array(True), data).numpy(), np.exp(data) + data, rtol=1e-6)
    np.testing.assert_allclose(run_it(np.array(False), data).numpy(), np.exp(data) ** 2, rtol=1e-6)
    kind = relay.TensorType((3,), "float32")
    small = relay.less(relay.sum(inner), relay.const(9.0))
    again = relay.Function([inner], relay.If(small, relay.Call(f, [inner + inner]), inner), kind)
    loop = relay.Let(f, again, f(x))
    got = relay.create_executor("vm").evaluate(relay.Function([x], loop))(data)
    np.testing.assert_allclose(got.numpy(), data * 8)


def test_functions_of_a_module_call_each_other() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    twice = relay.GlobalVar("twice")
    mod = tvm.IRModule({"twice": relay.Function([x], x + x), "main": relay.Function([y], relay.Call(twice, [y]))})
    got = relay.create_executor("graph", mod).evaluate()(np.array([1, 2], "float32"))
    assert got.numpy().tolist() == [2, 4]


def test_expressions_without_variables_have_values() -> None:
    assert relay.create_executor("debug").evaluate(relay.const([1, 2]) + relay.const([3, 4])).numpy().tolist() == [4, 6]


def test_deep_networks_need_no_recursion() -> None:
    x = relay.var("x", shape=(2,))
    value = x
    for _ in range(3000):
        value = relay.nn.relu(value)
    func = relay.Function([x], value)
    assert func.astext().count("nn.relu") == 3000
    assert relay.analysis.free_vars(value) == [x]
    assert str(func.body.checked_type) == "Tensor[(2,), float32]"


# ----------------------------------------------------------------------------------- building


@pytest.mark.parametrize("suffix", ["tar", "tunefarm"])
def test_a_build_runs_by_name_and_after_loading(suffix: str, tmp_path: Path) -> None:
    values = _values()
    lib = relay.build(tvm.IRModule.from_expr(_network()), "llvm", params={k: values[k] for k in "wb"})
    lib.export_library(str(tmp_path / f"net.{suffix}"))
    for made in (lib, tvm.runtime.load_module(str(tmp_path / f"net.{suffix}"))):
        module = graph_executor.GraphModule(made["default"](tvm.cpu()))
        module.set_input("x", values["x"])
        module.run()
        np.testing.assert_allclose(module.get_output(0).numpy(), _want(values), rtol=1e-5)


def test_inputs_and_outputs_of_a_graph_module() -> None:
    values, others = _values(), _values(1)
    lib = relay.build(_network(), target="llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    assert (module.get_num_inputs(), module.get_num_outputs()) == (3, 1)
    assert (module.get_input_index("b"), module.get_input_index("q")) == (2, -1)
    assert module.get_input_info()[0] == {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3), "b": (4,)}
    assert set(module.get_input_info()[1].values()) == {"float32"}
    with pytest.raises(ArgumentError, match="no outputs before a run"):
        module.get_output(0)
    module.load_params(relay.save_param_dict({k: values[k] for k in "wb"}))
    module.run(x=values["x"])
    out = tvm.nd.empty((1, 4))
    np.testing.assert_allclose(module.get_output(0, out).numpy(), _want(values), rtol=1e-5)
    assert module.get_input(0).numpy().tolist() == values["x"].tolist()
    shared = tvm.nd.array(others["x"])
    module.set_input_zero_copy("x", shared)
    module.set_output_zero_copy(0, out)
    module.run()
    np.testing.assert_allclose(out.numpy(), _want({**values, "x": others["x"]}), rtol=1e-5)
    shared.copyfrom(values["x"])
    module.run()
    np.testing.assert_allclose(out.numpy(), _want(values), rtol=1e-5)
    second = graph_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu())
    second.share_params(module, relay.save_param_dict({k: values[k] for k in "wb"}))
    second.set_input(x=values["x"], unknown=values["x"])
    second.run()
    np.testing.assert_allclose(second.get_output(0).numpy(), out.numpy())
    with pytest.raises(ArgumentError, match="there is no input 'q'"):
        module.set_input("q", values["x"])
    with pytest.raises(ArgumentError, match="1 outputs"):
        module.get_output(3)
    graph, code, params = lib
    assert '"name": "x"' in graph
    assert code is lib
    assert params == {}


def test_a_module_is_measured_and_debugged() -> None:
    values = _values()
    lib = relay.build(_network(), target={"cpu": "llvm"}, params={k: values[k] for k in "wb"})
    assert set(lib.get_params()) == {"w", "b"}
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for end_to_end in (False, True):
        result = module.benchmark(tvm.cpu(), repeat=2, number=3, end_to_end=end_to_end, x=values["x"])
        assert len(result.results) == 2
    assert module.profile(x=values["x"]).calls
    debug = debug_executor.GraphModuleDebug(lib["default"](tvm.cpu()), [tvm.cpu()], lib.get_graph_json(), None)
    debug.set_input("x", values["x"])
    debug.run()
    nodes = [name for name, _ in debug.module.calls()]
    last = tvm.nd.empty((1, 4))
    debug.debug_get_output(len(nodes) - 1, last)
    np.testing.assert_allclose(last.numpy(), _want(values), rtol=1e-5)
    with pytest.raises(ArgumentError, match="calls no kernel"):
        debug.debug_get_output("nothing", last)


def test_names_not_carried_over_say_what_to_use() -> None:
    for owner, name, instead in (
        (relay, "ScopeBuilder", "relax.BlockBuilder"),
        (relay.frontend, "from_keras", "ONNX"), (relay.transform, "FuseOps", "relax.transform"),
        (relay.analysis, "check_kind", "relax.analysis"), (relay.dataflow_pattern, "is_op", "relax.dpl"),
        (relay.nn, "fifo_buffer", "relax"), (relay.vision, "proposal", "relax"),
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=f"{name}.*{instead}"):
            getattr(owner, name)
    with pytest.raises(ArgumentError, match="no executor"):
        relay.create_executor("native")
    with pytest.raises(IRError, match="x of main has no type"):
        relay.build(relay.Function([relay.var("x")], relay.const(1)))


# ----------------------------------------------------------------------------------- networks


@pytest.mark.parametrize(
    ("make", "shape", "classes"),
    [
        (lambda: mlp.get_workload(2), (2, 1, 28, 28), 10),
        (lambda: resnet.get_workload(1, 10, 8, (3, 16, 16)), (1, 3, 16, 16), 10),
    ],
    ids=["mlp", "resnet"],
)
def test_networks_run(make: Any, shape: tuple[int, ...], classes: int) -> None:
    mod, params = make()
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(data=np.random.default_rng(0).random(shape, dtype="float32"))
    got = module.get_output(0).numpy()
    assert got.shape == (shape[0], classes)
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-4)


def test_networks_have_the_published_numbers_of_weights() -> None:
    assert _learnt(densenet.get_net(batch_size=1)) == 7_978_856
    assert _learnt(vgg.get_net(1, (3, 224, 224), 1000, "float32")) == 132_863_336
    assert _learnt(squeezenet.get_net(1, (3, 224, 224), 1000, "1.1", "float32")) == 1_235_496
    assert _learnt(mobilenet.mobile_net()) == 4_231_976
    assert abs(_learnt(resnet.get_net()) - 11_689_512) < 5000  # norms stand before convolutions here
    assert str(dcgan.get_net(1).body.checked_type) == "Tensor[(1, 3, 64, 64), float32]"
    net, params = create_workload(relay.nn.relu(relay.var("data", shape=(1, 2))))
    assert params == {}
    assert relay.to_relax(net)["main"].params[0].name_hint == "data"  # type: ignore[attr-defined]


def _learnt(net: Any) -> int:
    learnt = [param for param in net.params if "moving" not in param.name_hint and param.name_hint != "data"]
    return sum(int(np.prod(param.type_annotation.concrete_shape)) for param in learnt)
