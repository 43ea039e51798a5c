"""Pass contexts around passes over graphs: which run, the options they see, and the instruments that watch."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.transform.config import TransformError
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PIPELINES, get_pipeline
from tests.kit.compiler.pass_checks import as_module
from tunefarm import relax
from tunefarm.instrument import PassInstrument
from tunefarm.relax import transform
from tunefarm.script import relax as R


@R.function
def chain(x: R.Tensor((8,), "float32")):
    with R.dataflow():
        lv = R.exp(x)
        lv1 = R.exp(x)
        lv2 = R.add(lv, lv1)
        lv3 = R.tanh(lv2)
        gv = R.negative(lv3)
        R.output(gv)
    return gv


class Recorder(PassInstrument):
    def __init__(self, skip: tuple[str, ...] = ()) -> None:
        self.seen: list[str] = []
        self._skip = skip

    def should_run(self, mod: Any, info: Any) -> bool:
        return info.name not in self._skip

    def run_after_pass(self, mod: Any, info: Any) -> None:
        self.seen.append(info.name)


def fused(**context: Any) -> Any:
    with tvm.transform.PassContext(**context):
        return get_pipeline("fused")(as_module(chain))


def kernels(mod: Any) -> int:
    return sum(not isinstance(func, relax.Function) for func in mod.values())


def test_passes_are_left_out_and_asked_for() -> None:
    assert kernels(fused()) == 1
    assert kernels(fused(disabled_pass=["FuseOps"])) > 1
    assert kernels(fused(opt_level=0)) > 1
    asked = ["AnnotateTIROpPattern", "FuseOps", "FuseTIR", "DeadCodeElimination"]
    assert kernels(fused(opt_level=0, required_pass=asked)) == 1


def test_what_is_built_is_right_at_every_level() -> None:
    x = np.linspace(-1, 1, 8).astype("float32")
    for context in ({"opt_level": 0}, {"disabled_pass": ["FuseTIR", "StaticPlanBlockMemory"]}, {"opt_level": 3}):
        with tvm.transform.PassContext(**context):
            executable = relax.build(as_module(chain), "llvm")
        found = relax.VirtualMachine(executable, tvm.cpu())["main"](x).numpy()
        np.testing.assert_allclose(found, -np.tanh(2 * np.exp(x)), rtol=1e-5)


def test_instruments_see_every_pass_and_may_skip_some() -> None:
    recorder = Recorder()
    fused(instruments=[recorder])
    assert recorder.seen == [*(pass_of(function).title for function in PIPELINES["fused"]), "relax.fused"]
    recorder = Recorder(skip=("FuseOps",))
    assert kernels(fused(instruments=[recorder])) > 1
    assert "FuseOps" not in recorder.seen
    timing = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing]):
        transform.FuseOps()(as_module(chain))
        assert "FuseOps" in timing.render()


def test_options_reach_passes() -> None:
    assert kernels(fused(config={"relax.FuseOps.max_depth": 1})) > 1
    assert kernels(fused(config={"relax.FuseOps.max_depth": 16})) == 1
    with pytest.raises(TransformError, match="positive"):
        fused(config={"relax.FuseOps.max_depth": 0})
    with pytest.raises(TransformError, match=r"no pass option 'relax\.FuseOps\.depth'"):
        fused(config={"relax.FuseOps.depth": 1})
