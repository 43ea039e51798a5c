"""Devices of values, before and after; modules on two devices run on both."""

import random
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.build import InputError
from compiler.errors import ArgumentError, IRError
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import same_values
from tests.kit.compiler.random_graphs import random_graph
from tunefarm import relax
from tunefarm.relax import TensorStructInfo, transform
from tunefarm.relax.op import hint_on_device
from tunefarm.script import ir as I
from tunefarm.script import relax as R

REALIZE = transform.RealizeVDevice()


@I.ir_module
class Hints:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32"), z: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            parts = R.split(x, 2, axis=1)
            first = parts[0]
            here = R.hint_on_device(first, "llvm:0")
            lv = R.concat((here, parts[1]), axis=1)
            lv1 = R.add(R.exp(lv), y)
            there = R.hint_on_device(lv1, "llvm:1")
            gv = R.multiply(there, R.zeros((2, 4), "float32"))
            gv1 = R.subtract(gv, z)
            R.output(gv1)
        return gv1


@I.ir_module
class Realized:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(
        x: R.Tensor((2, 4), "float32", "llvm:0"),
        y: R.Tensor((2, 4), "float32", "llvm:0"),
        z: R.Tensor((2, 4), "float32", "llvm:1"),
    ):
        with R.dataflow():
            parts = R.split(x, 2, axis=1)
            first = parts[0]
            here = first
            second = parts[1]
            lv = R.concat((here, second), axis=1)
            lv1 = R.add(R.exp(lv), y)
            there = R.to_vdevice(lv1, "llvm:1")
            zeros = R.zeros((2, 4), "float32")
            moved = R.to_vdevice(zeros, "llvm:1")
            gv = R.multiply(there, moved)
            gv1 = R.subtract(gv, z)
            R.output(gv1)
        return gv1


def test_hints_become_devices_and_copies() -> None:
    made = REALIZE(Hints)
    assert problems(made) == []
    assert_structural_equal(made, Realized)
    args = np.random.default_rng(0).standard_normal((3, 2, 4)).astype("float32")
    same_values(run(made, *args), run(Hints, *args))
    assert_structural_equal(REALIZE(Realized), Realized)


def test_scripts_name_devices_of_the_program_around() -> None:
    @I.ir_module
    class Model:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0)]})

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.hint_on_device(x, tvm.cpu())
                b = R.to_vdevice(a, tvm.cuda(0))
                gv = R.hint_on_device(b, dst_vdevice=tvm.cuda(0))
                R.output(gv)
            return gv

    a, b, gv = [binding.value.attrs["dst_vdevice"] for binding in Model["main"].body.blocks[0].bindings]
    assert [str(a), str(b), b is gv] == ["llvm:0:global", "cuda:0:global", False]
    assert b == gv == Model.global_infos["vdevice"][1]


def test_branches_and_tuples_of_several_devices() -> None:
    @R.function
    def graph(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        if c:
            a = R.exp(x)
        else:
            a = R.negative(x)
        both = (a, y)
        first = R.hint_on_device(both[0], "llvm:0")
        second = R.hint_on_device(both[1], "llvm:1")
        return (first, second)

    made = REALIZE(tvm.IRModule({"main": graph.with_attr("global_symbol", "main")}))
    assert problems(made) == []
    devices = [str(param.struct_info.vdevice) for param in made["main"].params]
    assert devices == ["None", "llvm:0:global", "llvm:1:global"]
    assert "to_vdevice" not in made.script()
    assert "hint_on_device" not in made.script()


def test_kernels_make_their_results_where_they_are_wanted() -> None:
    legal = transform.LegalizeOps(skip_ops=["relax.hint_on_device"])(Hints)
    made = REALIZE(legal)
    assert problems(made) == []
    assert made.script().count("R.to_vdevice") == 1
    assert '"float32", vdevice="llvm:1:global"' in made.script().partition("R.to_vdevice")[2]


def test_a_device_is_replaced_everywhere() -> None:
    new = transform.UpdateVDevice(tvm.ir.VDevice("llvm", 7), 1)(Realized)
    assert problems(new) == []
    assert [device.vdevice_id for device in new.global_infos["vdevice"]] == [0, 7]
    text = new.script()
    assert '"llvm:1:global"' not in text
    assert text.count('"llvm:7:global"') == Realized.script().count('"llvm:1:global"')
    back = transform.UpdateVDevice("llvm:1", 1)(new)
    assert_structural_equal(back, Realized)
    with pytest.raises(ArgumentError, match="index is 2, and the module has 2 devices"):
        transform.UpdateVDevice("llvm:1", 2)(Realized)


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_modules_on_two_devices_run_on_both(exec_mode: str) -> None:
    machine = relax.VirtualMachine(relax.build(Hints, "llvm", exec_mode=exec_mode), [tvm.cpu(0), tvm.cpu(1)])
    args = np.random.default_rng(0).standard_normal((3, 2, 4)).astype("float32")
    found = machine["main"](*[tvm.nd.array(a, tvm.cpu(n)) for a, n in zip(args, (0, 0, 1))])
    assert found.device == tvm.cpu(1)
    same_values(found.numpy(), run(Hints, *args))


def test_a_build_for_two_targets_holds_object_code_and_ptx() -> None:
    """One kernel is called for both devices, so there is one of it for each."""

    def graph(*devices: Any) -> Any:
        bb, x = relax.BlockBuilder(), relax.Var("x", TensorStructInfo((4,), "float32"))
        with bb.function("main", [x]):
            with bb.dataflow():
                here = bb.emit(hint_on_device(bb.emit(relax.op.exp(x)), devices[0]))
                there = bb.emit(hint_on_device(here, devices[1]))
                out = bb.emit_output(relax.op.exp(there))
            bb.emit_func_output(out)
        return IRModule(bb.get().functions, global_infos={"vdevice": list(devices)})

    gpu = tvm.ir.VDevice("cuda -arch=sm_80", 0)
    for exec_mode in ("bytecode", "compiled"):
        kernels = relax.build(graph(tvm.ir.VDevice("llvm", 0), gpu), "llvm", exec_mode=exec_mode).program.kernels
        assert {kind: [entry.name for entry in held.entries] for kind, held in kernels.items()} == {
            "cpu": ["exp"], "cuda": ["exp_cuda"],
        }  # fmt: skip
        assert b".target sm_80" in kernels["cuda"].blobs["ptx"]
    one = graph(tvm.ir.VDevice("llvm", 0), tvm.ir.VDevice("llvm -mcpu=core2", 1))
    with tvm.target.Target("cuda -arch=sm_80"), pytest.raises(InputError, match="of a cpu device"):
        relax.build(one)


def test_hints_that_contradict_each_other_are_refused() -> None:
    @R.function
    def graph(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        gv = R.add(R.hint_on_device(x, "llvm:0"), R.hint_on_device(y, "llvm:1"))
        return gv

    with pytest.raises(IRError, match="the devices differ: x1 on llvm:0:global and x2 on llvm:1:global"):
        REALIZE(tvm.IRModule({"main": graph.with_attr("global_symbol", "main")}))


class _Hinter(relax.PyExprMutator):
    """Hints after some of the calls."""

    def __init__(self, mod: Any, seed: int) -> None:
        super().__init__(mod)
        self.rng = random.Random(seed)

    def visit_call_(self, op: Any) -> Any:
        call = self.builder_.emit(super().visit_call_(op))
        if self.rng.random() < 0.5 or not isinstance(call.struct_info, TensorStructInfo):
            return call
        return hint_on_device(call, f"llvm:{int(self.rng.random() < 0.1)}")


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_with_hints_compute_what_they_did(seed: int) -> None:
    graph = random_graph(seed, count=5, symbolic=seed % 2 == 0)
    hinter = _Hinter(graph.module, seed)
    func = hinter.visit_expr(graph.module["main"])
    made = REALIZE(tvm.IRModule({"main": func}))
    assert problems(made) == []
    assert "hint_on_device" not in made.script()
    same_values(run(made, *graph.args), run(graph.module, *graph.args))
