"""Passes as objects: decorators, sequences, what they require, and lowering's passes one at a time."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from compiler.driver import tir_passes
from compiler.driver.build import lower
from compiler.driver.pipeline import steps
from compiler.interp.interpreter import run
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import ModulePass, PassInfo, PrintIR, Sequential, get_pass, module_pass
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.transform import PrimFuncPass, find_pass, pass_of, prim_func_pass, tir_pass
from tests.kit.compiler.lowering import chain, matmul


def two() -> IRModule:
    return IRModule({"mm": matmul(3, 4, 5), "chain": chain(3, 5)})


def test_a_function_over_modules() -> None:
    @module_pass(opt_level=1, name="mine.Keep", required=["tir.Simplify"])
    def keep_first(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_functions(dict(mod.items()[: ctx.opt_level]))

    assert isinstance(keep_first, ModulePass)
    assert (keep_first.info.name, keep_first.info.opt_level) == ("mine.Keep", 1)
    assert keep_first.info.required == ("tir.Simplify",)
    module = two()
    with PassContext(opt_level=1):
        assert [g.name_hint for g in keep_first(module)] == ["mm"]
    assert len(keep_first(module)) == len(module) == 2


def test_a_class_of_passes_takes_arguments() -> None:
    @prim_func_pass(opt_level=0)
    class Tag:
        """Tags functions."""

        def __init__(self, value: int) -> None:
            self.value = value

        def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
            return func.with_attr("tag", self.value)

    tag = Tag(7)
    assert isinstance(tag, PrimFuncPass)
    assert (tag.value, tag.info.name, Tag.__doc__) == (7, "Tag", "Tags functions.")
    assert [f.attrs["tag"] for _, f in tag(two()).items()] == [7, 7]
    with pytest.raises(TransformError, match="needs a method transform_module"):
        module_pass(opt_level=0)(type("Nothing", (), {}))


def test_wrong_steps() -> None:
    with pytest.raises(TransformError, match="needs its opt_level"):
        module_pass(lambda mod, ctx: mod)
    with pytest.raises(TransformError, match="made of a function or a class"):
        module_pass(3, opt_level=0)
    with pytest.raises(TransformError, match="takes an IRModule, not a PrimFunc"):
        tir_passes.Simplify()(matmul(2, 3, 4))  # type: ignore[arg-type]
    with pytest.raises(TransformError, match="must return an IRModule, not a NoneType"):
        module_pass(lambda mod, ctx: None, opt_level=0, name="bad")(two())
    with pytest.raises(TransformError, match="must return a PrimFunc, not a int"):
        prim_func_pass(lambda func, mod, ctx: 3, opt_level=0, name="bad")(two())
    with pytest.raises(TransformError, match="a sequence is made of passes"):
        Sequential([lambda mod: mod])  # type: ignore[list-item]
    with pytest.raises(TransformError, match=r"no pass 'tir.Simplfy'(?s:.)*did you mean 'tir.Simplify'"):
        get_pass("tir.Simplfy")


def test_a_sequence_runs_what_is_enabled_and_required() -> None:
    ran: list[str] = []

    def step(name: str, level: int, required: tuple[str, ...] = ()) -> ModulePass:
        def note(mod: IRModule, ctx: PassContext) -> IRModule:
            ran.append(name)
            return mod

        made = module_pass(note, opt_level=level, name=name, required=required)
        assert isinstance(made, ModulePass)
        return made

    sequence = Sequential([step("a", 0), step("b", 3), step("c", 1)])
    sequence(two())
    assert ran == ["a", "c"]
    ran.clear()
    with PassContext(opt_level=0, required_pass=["b"], disabled_pass=["a"]):
        sequence(two())
    assert ran == ["b"]
    with pytest.raises(TransformError, match="no pass 'nobody'"):
        Sequential([step("d", 0, ("nobody",))])(two())


def test_every_pass_of_lowering_is_there_by_name() -> None:
    for step in steps():
        made = getattr(tir_passes, step.title)()
        assert made.info == get_pass(f"tir.{step.title}").info == step.info
        assert made.info.name == f"tir.{step.title}"


def test_lowering_pass_by_pass_is_lowering() -> None:
    module = two()
    with Target("llvm"):
        one_by_one = Sequential([getattr(tir_passes, step.title)() for step in steps()], opt_level=0)(module)
        assert structural_equal(one_by_one["mm"], lower(module)["mm"])
    a, b, out = np.ones((3, 5), "float32"), np.ones((5, 4), "float32"), np.zeros((3, 4), "float32")
    run(one_by_one["mm"], a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_passes_over_functions(capsys: pytest.CaptureFixture[str]) -> None:
    module = two()
    assert [g.name_hint for g in tir_passes.Filter(lambda f: len(f.buffer_map) == 3)(module)] == ["mm", "chain"]
    assert not len(tir_passes.Filter(lambda f: False)(module))
    assert tir_passes.Apply(lambda f: f.with_attr("x", 1))(module)["mm"].attrs["x"] == 1
    bound = tir_passes.BindTarget(Target("llvm -num-cores=3"))(module)
    assert bound["mm"].attrs["target"] == Target("llvm -num-cores=3")
    assert tir_passes.BindTarget(Target("cuda"))(bound)["mm"].attrs["target"].kind == "llvm"
    assert PrintIR("here")(module) is module
    assert "# PrintIR(here)" in capsys.readouterr().out


# ---------------------------------------------------------------------------------- the table


def test_a_pass_is_registered_at_its_function() -> None:
    @tir_pass("TestDoubled", options={"times": lambda context: 2})
    def repeated(func: PrimFunc, *, times: int = 1) -> PrimFunc:
        """Note how often.

        More of it.
        """
        return func.with_attr("times", times)

    found = find_pass("TestDoubled")
    assert (found.info, found.description) == (PassInfo(0, "tir.TestDoubled"), "Note how often.")
    assert pass_of(repeated) is found
    assert get_pass("tir.TestDoubled")(two())["mm"].attrs["times"] == 2
    assert found.make(5)(two())["mm"].attrs["times"] == found.make(times=5)(two())["mm"].attrs["times"] == 5
    with pytest.raises(TransformError, match=r"a pass 'tir.TestDoubled' is already registered"):
        tir_pass("TestDoubled")(repeated)
    with pytest.raises(TransformError, match=r"no pass tir.TestDouble(?s:.)*did you mean 'TestDoubled'"):
        find_pass("TestDouble")


def test_constructors_say_what_they_take() -> None:
    assert str(inspect.signature(tir_passes.VectorizeLoop)) == "(enable_vectorize: 'bool' = True)"
    assert str(inspect.signature(tir_passes.Simplify)) == "()"
    assert tir_passes.Simplify.__doc__ == "Simplify expressions, and remove what has no effect."
    assert "Simplify" in dir(tir_passes)
    with pytest.raises(TypeError):
        tir_passes.Simplify(1)
    with pytest.raises(AttributeError):
        _ = tir_passes.Simplfy
