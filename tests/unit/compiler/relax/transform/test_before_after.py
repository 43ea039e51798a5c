"""Passes before and after by structure, for those whose other tests look at what is computed."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.structural import assert_structural_equal
from compiler.relax.analysis import problems
from compiler.relax.fusion import backends
from compiler.relax.transform.tuning.kernel_tuner import KernelTuner, kernel_tuner
from tests.kit.compiler.pass_checks import as_module, becomes, stays
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.relax.dpl import is_op, wildcard
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T


@I.ir_module
class Kernel:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(4), i)
                B[v] = T.exp(A[v])

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Kernel
        with R.dataflow():
            gv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


def with_kernel_attrs(mod: Any, **attrs: Any) -> Any:
    """The module with attributes of its kernel."""
    (name,) = [gvar for gvar in mod.functions if gvar.name_hint == "exp"]
    return mod.with_functions({**mod.functions, name: mod[name].with_attrs(attrs)})


def test_kernels_say_how_they_may_be_fused() -> None:
    becomes(transform.AnnotateTIROpPattern(), Kernel, with_kernel_attrs(Kernel, op_pattern=0))


def test_tuning_leaves_modules_as_they_are_and_choosing_marks_kernels() -> None:
    answers = KernelTuner(lambda func, *_: func, lambda *_: None, lambda func, *_: func)
    with kernel_tuner(answers):
        stays(transform.MetaScheduleTuneTIR("folder", 1), Kernel)
        stays(transform.MetaScheduleTuneIRMod({}, "folder", 1), Kernel)
        becomes(transform.FewShotTuning(), Kernel, with_kernel_attrs(Kernel, **{"tir.is_scheduled": True}))


def test_modules_come_along_in_an_attribute() -> None:
    class Loaded:
        """A module of the runtime."""

        def get_function(self, name: str) -> Any:
            """None: it has no functions."""

    loaded = Loaded()
    becomes(transform.AttachExternModules([loaded]), Kernel, Kernel.with_attr("external_mods", [loaded]))


def test_values_take_the_place_of_parameters() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        gv = R.add(x, w)
        return gv

    @R.function
    def after(x: R.Tensor((2,), "float32")):
        gv = R.add(x, R.const([1.0, 2.0], "float32"))
        return gv

    becomes(transform.BindParams("main", {"w": np.array([1, 2], "float32")}), before, after)


def test_functions_inside_of_functions_are_lifted() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def inner(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            b = R.add(a, x)
            return b

        gv = inner(y)
        return gv

    @I.ir_module
    class After:
        @R.function(private=True)
        def main_inner(a: R.Tensor((2,), "float32"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            b = R.add(a, x)
            return b

        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = After
            gv = cls.main_inner(y, x)
            return gv

    lift = tvm.transform.Sequential([transform.LambdaLift(), transform.DeadCodeElimination()])
    found = lift(as_module(before))
    assert problems(found) == []
    assert_structural_equal(found, After)


def test_layer_norms_of_training_are_taken_apart() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), g: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")):
        with R.dataflow():
            gv = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-5)
            R.output(gv)
        return gv

    found = transform.DecomposeOpsForTraining()(as_module(before))
    again = transform.DecomposeOpsForTraining()(found)
    assert "nn.layer_norm" not in found.script()
    assert_structural_equal(again, found)


def test_fast_functions_are_kernels() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            lv = R.tanh(x)
            gv = R.add(lv, x)
            R.output(gv)
        return gv

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit_te(tvm.topi.fast_tanh, x)
            gv = bb.emit_output(relax.op.add(lv, x))
        bb.emit_func_output(gv)
    becomes(transform.FastMathTransform(), before, bb.get())


def test_a_transposed_factor_is_read_as_it_lies() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            lv = R.permute_dims(w)
            gv = R.matmul(x, lv)
            R.output(gv)
        return gv

    bb = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorStructInfo(s, "float32")) for name, s in (("x", (2, 3)), ("w", (4, 3))))  # type: ignore[arg-type]
    product = lambda a, b: tvm.topi.matmul(a, b, transp_b=True)  # noqa: E731
    with bb.function("main", [x, w]):
        with bb.dataflow():
            gv = bb.emit_output(bb.call_te(product, x, w, primfunc_name_hint="NT_matmul"))
        bb.emit_func_output(gv)
    becomes(transform.FuseTransposeMatmul(), before, bb.get())


def test_products_with_constants_become_one() -> None:
    a, b = (relax.const(np.full((3, size), size, "float32")) for size in (2, 4))
    x = relax.Var("x", relax.TensorStructInfo((5, 3), "float32"))  # type: ignore[arg-type]

    def module(one: bool) -> Any:
        bb = relax.BlockBuilder()
        with bb.function("main", [x]):
            with bb.dataflow():
                if one:
                    whole = bb.emit(relax.op.matmul(x, bb.emit(relax.op.concat([a, b], axis=1))))
                    parts = bb.emit(relax.op.split(whole, [2], axis=-1))
                    left, right = (bb.emit(relax.TupleGetItem(parts, place)) for place in range(2))
                else:
                    left, right = (bb.emit(relax.op.matmul(x, weight)) for weight in (a, b))
                both = [bb.emit(relax.op.reshape(part, (-1,))) for part in (left, right)]
                gv = bb.emit_output(relax.op.concat(both))
            bb.emit_func_output(gv)
        return bb.get()

    tidy = tvm.transform.Sequential([transform.CombineConstantMatmul(), transform.CanonicalizeBindings(),
                                     transform.TopologicalSort(), transform.DeadCodeElimination()])  # fmt: skip
    assert_structural_equal(tidy(module(False)), tidy(module(True)))


def test_products_with_matrices_that_are_unpacked_at_each_run_stay_apart() -> None:
    """Each is 64 × 64 of one number: side by side they would be copied at each run."""
    x = relax.Var("x", relax.TensorStructInfo((5, 64), "float32"))  # type: ignore[arg-type]
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            seeds = [relax.const(np.full((1, 1), at, "float32")) for at in (1, 2)]
            parts = [bb.emit(relax.op.broadcast_to(seed, (64, 64))) for seed in seeds]
            both = [bb.emit(relax.op.reshape(bb.emit(relax.op.matmul(x, part)), (-1,))) for part in parts]
            gv = bb.emit_output(relax.op.concat(both))
        bb.emit_func_output(gv)
    module = bb.get()
    assert_structural_equal(transform.CombineConstantMatmul()(module), module)


def test_another_kernel_takes_the_place_of_one() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def exp_altered(
            A: T.Buffer((T.int64(2), T.int64(2)), "float32"), B: T.Buffer((T.int64(2), T.int64(2)), "float32")
        ):
            for i, j in T.grid(T.int64(2), T.int64(2)):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = T.exp(A[v, w])

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            with R.dataflow():
                lv = R.layout_transform(x, lambda i: (i // 2, i % 2), pad_value=0)
                lv1 = R.call_tir(cls.exp_altered, (lv,), out_sinfo=R.Tensor((2, 2), "float32"))
                gv = R.layout_transform(lv1, lambda i, j: (i * 2 + j,))
                R.output(gv)
            return gv

    kernel = After["exp_altered"]
    halves = lambda i: (i // 2, i % 2)  # noqa: E731
    alter = transform.AlterOpImpl({"test.exp": kernel}, {"test.exp": [halves, halves]})
    found = transform.DeadCodeElimination()(alter(with_kernel_attrs(Kernel, operator_name="test.exp")))
    assert problems(found) == []
    assert_structural_equal(found, After)


def test_types_of_parameters_change_under_the_newer_name_too() -> None:
    half = relax.TensorStructInfo((4,), "float16")  # type: ignore[arg-type]

    @R.function
    def before(x: R.Tensor((4,), "float32")):
        gv = R.add(x, x)
        return gv

    @R.function
    def after(x: R.Tensor((4,), "float16")):
        gv = R.add(x, x)
        return gv

    becomes(transform.UpdateParamType(lambda param: half), before, after)
    becomes(transform.UpdateParamStructInfo(lambda param: half), before, after)


# --------------------------------------------------------------------------------- code generators


@R.function
def for_others(x: R.Tensor((4,), "float32")):
    with R.dataflow():
        gv = R.exp(x)
        R.output(gv)
    return gv


@I.ir_module
class Composite:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Composite
        with R.dataflow():
            gv = cls.fused_relax_exp(x)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_exp(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Composite": "mine.exp", "Primitive": 1})
        with R.dataflow():
            gv = R.exp(x)
            R.output(gv)
        return gv


@I.ir_module
class ForOthers:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = ForOthers
        with R.dataflow():
            gv = cls.fused_relax_exp_mine(x)
            R.output(gv)
        return gv

    @R.function
    def fused_relax_exp_mine(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "mine"})

        @R.function
        def fused_relax_exp(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "mine.exp", "Primitive": 1})
            with R.dataflow():
                gv = R.exp(y)
                R.output(gv)
            return gv

        with R.dataflow():
            gv1 = fused_relax_exp(x)
            R.output(gv1)
        return gv1


@I.ir_module
class Called:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            gv = R.call_dps_packed("fused_relax_exp_mine", (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


def test_parts_for_code_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = [("mine.exp", is_op("relax.exp")(wildcard()))]
    becomes(transform.FuseOpsByPattern(patterns), for_others, Composite)
    becomes(transform.MergeCompositeFunctions(), Composite, ForOthers)
    monkeypatch.setitem(backends._codegens, "mine", lambda functions, options: [])
    becomes(transform.RunCodegen(), ForOthers, Called)


@I.ir_module
class TwoBlocks:
    @T.prim_func(private=True)
    def both(A: T.Buffer((T.int64(4),), "float32"), C: T.Buffer((T.int64(4),), "float32")):
        B = T.alloc_buffer((T.int64(4),), "float32")
        for i in range(T.int64(4)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(4), i)
                B[v] = T.exp(A[v])
        for i in range(T.int64(4)):
            with T.block("C"):
                v = T.axis.spatial(T.int64(4), i)
                C[v] = B[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = TwoBlocks
        with R.dataflow():
            gv = R.call_tir(cls.both, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


@I.ir_module
class FirstByOthers:
    @T.prim_func(private=True)
    def both_rest(B: T.Buffer((T.int64(4),), "float32"), C: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("C"):
                v = T.axis.spatial(T.int64(4), i)
                C[v] = B[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = FirstByOthers
        with R.dataflow():
            lv = R.call_dps_packed("library_exp", (x,), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.both_rest, (lv,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


def test_the_first_block_of_a_kernel_is_computed_by_others() -> None:
    split = transform.SplitCallTIRByPattern([Kernel["exp"]], lambda matches: ("library_exp", 1))
    found = transform.DeadCodeElimination()(split(TwoBlocks))
    assert problems(found) == []
    assert_structural_equal(found, FirstByOthers)
