"""Texts as Apache TVM prints them are read. See tests/data/graph_scripts for how they were made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_equal
from compiler.ir.vdevice import VDevice
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import Constant, Function, PrimStructInfo, TensorStructInfo, Var, const
from compiler.script.entry import from_source
from compiler.script.metadata import read_metadata, write_metadata
from compiler.script.saved import load_json, save_json
from compiler.script.source import ScriptError
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.compiler.pass_checks import same_after_reading

DATA = Path(__file__).parents[3] / "data" / "graph_scripts"


def _module(name: str) -> IRModule:
    module = from_source((DATA / f"{name}.txt").read_text())
    assert isinstance(module, IRModule)
    return module


@pytest.mark.parametrize(
    "name", ["tvm_0_20", "tvm_0_25_operators", "tvm_0_25_functions", "tvm_0_27_operators", "tvm_0_27_functions"]
)
def test_texts_are_read_and_printed_stably(name: str) -> None:
    same_after_reading(_module(name))


def test_what_version_0_20_says() -> None:
    module = _module("tvm_0_20")
    assert module.attrs == {"external_mods": []}
    main = module["main"]
    assert isinstance(main, Function)
    assert not main.is_pure
    assert main.attrs["relax.force_pure"] is False
    info = main.params[2].struct_info
    assert isinstance(info, PrimStructInfo)
    assert isinstance(info.value, n.Var)
    device = main.params[5].struct_info
    assert isinstance(device, TensorStructInfo)
    assert device.vdevice == module.global_infos["vdevice"][1]
    assert main.params[6].struct_info == TensorStructInfo(None, "")
    assert module["helper"].attrs == {"Primitive": 1}


def test_what_version_0_27_says() -> None:
    module = _module("tvm_0_27_operators")
    main, kernel = module["main"], module["softmax"]
    assert isinstance(main, Function)
    assert isinstance(kernel, n.PrimFunc)
    assert kernel.attrs == {"tir.noalias": True}
    assert [type(param.struct_info).__name__.removesuffix("StructInfo") for param in main.params] == [
        "Tensor", "Tensor", "Shape", "Tuple", "Prim", "Func", "Tensor"
    ]  # fmt: skip
    (first, *_) = main.body.blocks[0].bindings
    constant: Any = first.value.args[1]  # type: ignore[attr-defined]
    assert isinstance(constant, Constant)
    np.testing.assert_array_equal(constant.array, np.arange(36, dtype="float32").reshape(4, 9))
    sizes = {kernel.buffer_map[kernel.params[0]].shape[0], main.params[0].struct_info.dims[0]}  # type: ignore[attr-defined]
    assert len(sizes) == 2  # each function has variables of its own
    functions = _module("tvm_0_27_functions")
    k3 = functions["k3"]
    assert isinstance(k3, n.PrimFunc)
    assert k3.buffer_map[k3.params[0]].shape[1] is k3.params[1]


def test_the_kernel_of_a_newer_text_runs() -> None:
    text = """
# from typing import TypeVar
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.script import relax as R
from tvm.tirx.layout import Axis

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("B"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2.0)

    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        gv = R.call_tir(cls.double, (x,), out_ty=R.Tensor((n,), dtype="float32"))
        return gv
"""
    module = from_source(text)
    assert run(module, np.arange(3, dtype="float32")).tolist() == [0, 2, 4]  # type: ignore[arg-type]


# --------------------------------------------------------------------------------- metadata


def test_large_constants_stand_in_the_metadata() -> None:
    x = Var("x", TensorStructInfo((8, 8)))  # type: ignore[arg-type]
    data = np.random.default_rng(0).random((8, 8), dtype="float32")
    bb = BlockBuilder()
    with bb.function("main", [x]):
        a = bb.emit(op.add(x, const(data)))
        bb.emit_func_output(bb.emit(op.add(a, const(data))))
    module = bb.get()
    text = module.script()
    assert text.endswith("# Metadata omitted. Use show_meta=True in script() method to show it.")
    assert text.count("metadata[") == 2
    with pytest.raises(ScriptError, match="the constants of this text were left out"):
        from_source(text)
    assert_structural_equal(from_source(module.script(show_meta=True)), module)
    func = module["main"]
    assert_structural_equal(from_source(func.script(show_meta=True)), func)
    assert "def other(" in func.script(name="other")
    assert "\n  gv" in func.script(indent_spaces=2).replace("lv", "gv")


def test_numbers_that_text_does_not_say_stand_in_the_metadata() -> None:
    x = Var("x", TensorStructInfo((), "float32"))  # type: ignore[arg-type]
    odd = np.array([0x7FC00001, 0xFFC00000], "uint32").view("float32")
    for value in (odd[0], odd[1], odd, np.array([np.nan, np.inf, -0.0], "float32"), np.float32(np.nan)):
        bb = BlockBuilder()
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(op.add(x, const(np.asarray(value)))))
        module = bb.get()
        assert_structural_equal(from_source(module.script(show_meta=True)), module)
        assert_structural_equal(load_json(save_json(module)), module)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_arrays_of_every_type_in_metadata(dtype: str) -> None:
    held = Constant(np.arange(6).reshape(2, 3).astype(dtype))
    line = write_metadata({"relax.expr.Constant": [held.data]})
    text = line.removeprefix('metadata = tvm.ir.load_json("""').removesuffix('""")').replace('\\"', '"')
    (back,) = read_metadata(text)["relax.expr.Constant"]
    assert back.content == held.content


@pytest.mark.parametrize("text", ["no JSON", "{}", "[]", '{"root": 1, "nodes": []}', '{"root_index": 0, "nodes": [3]}'])
def test_metadata_that_is_none(text: str) -> None:
    with pytest.raises(IRError, match="the metadata of this text cannot be read"):
        read_metadata(text)


# -------------------------------------------------------------------------- global infos


def test_global_infos_belong_to_the_module() -> None:
    device = VDevice(Target("llvm"), 1)
    module = IRModule({}, {"a": 1}, {"vdevice": [device]})
    assert module.with_attr("b", 2).global_infos == {"vdevice": [device]}
    assert module.without_attr("a").global_infos == {"vdevice": [device]}
    assert module.with_functions({}).global_infos == {"vdevice": [device]}
    assert module.merge(IRModule({}, None, {"dummy": []})).global_infos == {"vdevice": [device], "dummy": []}
    other = IRModule({}, {"a": 1}, {"vdevice": [VDevice(Target("llvm"), 2)]})
    assert not structural_equal(module, other)
    module.update_global_info("vdevice", other.global_infos["vdevice"])
    assert structural_equal(module, other)
    assert 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 2, "global")]})' in module.script()
    assert_structural_equal(from_source(module.script()), module)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("I.module_global_infos([1])", "these are lists by name"),
        ('I.module_global_infos({"vdevice": [I.vdevice()]})', "I.vdevice needs a target"),
        ('I.module_global_infos({"vdevice": [I.vdevic("llvm")]})', "no expression 'I.vdevic'"),
        ("I.module_attrs(3)", "attributes are a dict"),
        ("I.what({})", "this has no place in a module"),
    ],
)
def test_module_statements_that_are_wrong(line: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message.replace("(", r"\(")) as caught:
        from_source(f"@I.ir_module\nclass Module:\n    {line}")
    assert caught.value.detail["line"] == 3
    assert "^" in caught.value.message
