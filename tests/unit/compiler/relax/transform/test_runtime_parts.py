"""Passes about what the runtime and code of others do: workspaces, modules, weights one by one, fast functions."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError
from compiler.ir.structural import assert_structural_equal
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import as_module, becomes, same_values
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R

# ------------------------------------------------------------------------------------ workspaces


@I.ir_module
class Without:
    @R.function(private=True)
    def mine(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "mine", "WorkspaceSize": 256})
        gv = R.exp(x)
        return gv

    @R.function(private=True)
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "mine", "WorkspaceSize": 1024})
        gv = R.negative(x)
        return gv

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Without
        a = cls.mine(x)
        b = cls.other(a)
        return b


@I.ir_module
class With:
    @R.function(private=True)
    def mine(x: R.Tensor((4,), "float32"), workspace: R.Tensor((1024,), "uint8")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "mine", "WorkspaceSize": 256})
        gv = R.exp(x)
        return gv

    @R.function(private=True)
    def other(x: R.Tensor((4,), "float32"), workspace: R.Tensor((1024,), "uint8")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "mine", "WorkspaceSize": 1024})
        gv = R.negative(x)
        return gv

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"relax.force_pure": True})
        cls = With
        workspace_main = R.builtin.alloc_tensor(R.shape([1024]), "uint8", 0)
        a = cls.mine(x, workspace_main)
        b = cls.other(a, workspace_main)
        return b


def test_code_of_others_gets_one_array_to_work_in() -> None:
    made = transform.AllocateWorkspace()(Without)
    assert problems(made) == []
    assert_structural_equal(made, With)
    x = np.arange(4, dtype="float32")
    same_values(run(made, x), run(Without, x))
    plain = made.with_functions({"main": Without["main"]})
    assert transform.AllocateWorkspace()(plain) is plain


def test_modules_of_the_runtime_come_along() -> None:
    class Given:
        """A module that knows how to load itself."""

        def load(self) -> Any:
            return found

    found = relax.build(_small(), "llvm").mod
    mod = transform.AttachExternModules([Given(), found])(Without)
    assert mod.attrs["external_mods"] == [found, found]
    assert transform.AttachExternModules([found])(mod).attrs["external_mods"] == [found] * 3
    with pytest.raises(ArgumentError, match="is no runtime module, and has no method load"):
        transform.AttachExternModules([3])(Without)


def _small() -> Any:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    return bb.get()


def test_builtins_are_lowered_under_the_newer_name_too() -> None:
    @R.function(pure=False)
    def graph(x: R.Tensor(("n",), "float32")):
        gv = R.shape_of(x)
        return gv

    mod = as_module(graph)
    becomes(transform.LowerRuntimeBuiltin(), mod, transform.VMBuiltinLower()(mod))
    assert "vm.builtin.shape_of" in transform.LowerRuntimeBuiltin()(mod).script()


# ------------------------------------------------------------------------------- weights one by one


@I.ir_module
class Whole:
    @R.function
    def main_transform_params(params: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((4,), "float32"))):
        with R.dataflow():
            b = params[1]
            a = params[0]
            lv = R.permute_dims(a)
            gv = (b, lv, R.exp(b))
            R.output(gv)
        return gv


@I.ir_module
class OneByOne:
    @R.function(pure=False)
    def main_transform_params() -> R.Tuple():
        b_untyped = R.call_packed("get_item", R.prim_value(1), sinfo_args=R.Object)
        b = R.match_cast(b_untyped, R.Tensor((4,), "float32"))
        o = R.call_packed("set_item", R.prim_value(0), b, sinfo_args=R.Object)
        a_untyped = R.call_packed("get_item", R.prim_value(0), sinfo_args=R.Object)
        a = R.match_cast(a_untyped, R.Tensor((2, 3), "float32"))
        lv = R.permute_dims(a)
        o1 = R.call_packed("set_item", R.prim_value(1), lv, sinfo_args=R.Object)
        k = R.vm.kill_object(a)
        k1 = R.vm.kill_object(lv)
        out = R.exp(b)
        o2 = R.call_packed("set_item", R.prim_value(2), out, sinfo_args=R.Object)
        k2 = R.vm.kill_object(b)
        k3 = R.vm.kill_object(out)
        return R.tuple()


def test_weights_are_loaded_transformed_and_given_away_one_by_one() -> None:
    made = transform.LazyTransformParams()(Whole)
    assert problems(made) == []
    weights = [np.arange(6, dtype="float32").reshape(2, 3), np.ones(4, "float32")]
    wanted = run(Whole, tuple(weights), func="main_transform_params")
    held: dict[int, Any] = {}
    tvm.register_func("test.lazy_get", weights.__getitem__, override=True)
    tvm.register_func("test.lazy_set", lambda place, value: held.update({place: value}), override=True)
    named = transform.LazyTransformParams("test.lazy_get", "test.lazy_set")(Whole)
    run(named, func="main_transform_params")
    same_values(tuple(held[place] for place in range(3)), wanted)
    assert_structural_equal(made, OneByOne)


def test_results_are_returned_without_a_function_that_takes_them() -> None:
    loader = relax.Var("loader", relax.ObjectStructInfo())
    made = transform.LazyTransformParams(fset_item=None, extra_get_item_params=[loader])(Whole)
    assert problems(made) == []
    func = made["main_transform_params"]
    assert [param.name_hint for param in func.params] == ["loader"]
    assert func.ret_struct_info == Whole["main_transform_params"].ret_struct_info
    assert 'R.call_packed("get_item", loader, R.prim_value(1)' in made.script()
    with pytest.raises(ArgumentError, match="an extra parameter is 3"):
        transform.LazyTransformParams(extra_get_item_params=[3])(Whole)


# ---------------------------------------------------------------------------------- fast functions


@R.function
def slow(x: R.Tensor((64, 8), "float32"), y: R.Tensor((8,), "float64")):
    with R.dataflow():
        a = R.tanh(x)
        b = R.erf(x)
        c = R.exp(x)
        d = R.nn.softmax(x, axis=0)
        e = R.exp(y)
        R.output(a, b, c, d, e)
    return (a, b, c, d, e)


def test_functions_are_approximated() -> None:
    made = transform.FastMathTransform()(as_module(slow))
    assert problems(made) == []
    names = sorted(name.name_hint for name in made)
    assert names == ["fast_erf", "fast_exp", "fast_exp1", "fast_softmax", "fast_tanh", "main"]
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, 8)) * 6).astype("float32")
    x[0, :4] = [0.0, -0.0, 30.0, -30.0]
    y = rng.standard_normal(8)
    found, wanted = run(made, x, y), run(as_module(slow), x, y)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=3e-6, atol=3e-6)
        assert np.abs(a - b).max() > 0 or a.dtype == "float64"
