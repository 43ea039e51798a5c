"""FuseOpsByPattern, MergeCompositeFunctions and RunCodegen, with code generators of a user's own, to the machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, ArtifactError
from compiler.relax.analysis import problems
from compiler.relax.fusion import backends
from compiler.relax.interp import run
from compiler.runtime.core.registry import remove_global_func
from tests.kit.compiler.pass_checks import as_module, same_values
from tunefarm import relax, te
from tunefarm.relax import BlockBuilder, Call, Function, TensorStructInfo, Tuple, Var, op, transform
from tunefarm.relax.backend import get_pattern, get_patterns_with_prefix, register_codegen, register_patterns
from tunefarm.relax.backend.patterns import make_conv2d_pattern, make_matmul_pattern, make_residual_block_pattern
from tunefarm.relax.dpl import is_op, wildcard
from tunefarm.script import relax as R

Module = Any


@R.function
def network(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((3, 3, 3, 3), "float32")):
    with R.dataflow():
        lv = R.nn.conv2d(x, w, padding=(1, 1))
        lv1 = R.nn.relu(lv)
        lv2 = R.nn.conv2d(lv1, w, padding=(1, 1))
        lv3 = R.nn.relu(lv2)
        lv4 = R.exp(lv3)
        gv = R.add(lv4, x)
        R.output(gv)
    return gv


def tensor(*shape: Any) -> Any:
    return TensorStructInfo(shape, "float32")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def forgets() -> Iterator[None]:
    patterns, codegens = dict(backends._patterns), dict(backends._codegens)
    yield
    for held, kept in ((backends._patterns, patterns), (backends._codegens, codegens)):
        held.clear()
        held.update(kept)  # type: ignore[arg-type]


def inputs() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") / 3 for shape in ((1, 3, 8, 8), (3, 3, 3, 3))]


def functions(mod: Module, attr: str) -> list[str]:
    return [f.attrs[attr] for f in mod.values() if isinstance(f, Function) and attr in f.attrs]


def conv_relu() -> Any:
    return ("mine.conv2d_relu", *make_conv2d_pattern(activation="relax.nn.relu"))


def test_what_a_pattern_matches_becomes_a_function() -> None:
    mod = transform.FuseOpsByPattern([conv_relu(), ("mine.exp", is_op("relax.exp")(wildcard()))])(as_module(network))
    assert problems(mod) == []
    assert sorted(functions(mod, "Composite")) == ["mine.conv2d_relu", "mine.exp"]  # equal functions are one
    same_values(run(mod, *inputs()), run(as_module(network), *inputs()))


def test_checks_and_attributes_of_patterns() -> None:
    asked: list[Any] = []

    def check(context: Any) -> bool:
        asked.append(context)
        conv = context.annotated_expr["root"]
        (user,) = context.var_usages[context.value_to_bound_var[conv]]
        assert context.matched_bindings[user] is context.matched_expr
        return isinstance(context.annotated_expr["lhs"], Var)  # the first convolution's input is the function's

    def attrs(annotated: Any) -> dict[str, Any]:
        return {"padding": str(annotated["root"].attrs["padding"])}

    pattern, names = make_conv2d_pattern(activation="relax.nn.relu")
    fused = transform.FusionPattern("mine.first", pattern, names, check, attrs)
    mod = transform.FuseOpsByPattern([fused])(as_module(network))
    assert functions(mod, "Composite") == ["mine.first"]
    assert "1" in functions(mod, "padding")[0]
    assert len(asked) == 2
    with pytest.raises(ArgumentError, match="no pattern"):
        transform.FuseOpsByPattern([3])(as_module(network))


def test_values_that_others_read_are_results_too() -> None:
    @R.function
    def shared(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.exp(lv)
            lv2 = R.nn.relu(lv)
            gv = R.add(lv1, lv2)
            R.output(gv, lv2)
        return (gv, lv2)

    pattern, names = make_matmul_pattern(activation="relax.nn.relu")
    mod = transform.FuseOpsByPattern([("mine.matmul_relu", pattern, names)])(as_module(shared))
    assert problems(mod) == []
    assert functions(mod, "Composite") == ["mine.matmul_relu"]
    args = [np.random.default_rng(0).standard_normal((4, 4)).astype("float32") for _ in range(2)]
    same_values(run(mod, *args), run(as_module(shared), *args))
    # a residual between the two parts of a pattern would have to come after the first and before the second
    block, names = make_residual_block_pattern(is_op("relax.nn.relu")(wildcard()))
    circle = transform.FuseOpsByPattern(
        [("mine.residual", is_op("relax.add")(is_op("relax.exp")(wildcard()), wildcard()))]
    )
    same_values(run(circle(as_module(shared)), *args), run(as_module(shared), *args))
    same_values(
        run(transform.FuseOpsByPattern([("r", block, names)])(as_module(shared)), *args), run(as_module(shared), *args)
    )


def test_random_graphs_stay_what_they_are() -> None:
    rng = np.random.default_rng(5)
    patterns = [
        ("a.add_exp", is_op("relax.exp")(is_op("relax.add")(wildcard(), wildcard()))),
        ("a.mul_neg", is_op("relax.multiply")(is_op("relax.negative")(wildcard()), wildcard())),
        ("b.add_add", is_op("relax.add")(is_op("relax.add")(wildcard(), wildcard()), is_op("relax.exp")(wildcard()))),
        ("b.neg", is_op("relax.negative")(wildcard())),
        ("a.add", is_op("relax.add")(wildcard(), wildcard())),
    ]
    info, merged = tensor(3), 0
    for _ in range(12):
        bb = BlockBuilder()
        params = [Var(name, info) for name in "xy"]
        with bb.function("main", params):
            with bb.dataflow():
                values: list[Any] = list(params)
                for _ in range(12):
                    picked = [values[rng.integers(max(0, len(values) - 5), len(values))] for _ in range(2)]
                    name = str(rng.choice(["exp", "negative", "add", "multiply"]))
                    values.append(bb.emit(getattr(op, name)(*picked[: 1 if name in ("exp", "negative") else 2])))
                outs = [bb.emit_output(value) for value in (values[-1], values[-4])]
            bb.emit_func_output(Tuple(tuple(outs)))
        mod = bb.get()
        args = [rng.uniform(-0.5, 0.5, 3).astype("float32") for _ in params]
        with np.errstate(all="ignore"):
            wanted = run(mod, *args)
            fused = transform.FuseOpsByPattern(patterns)(mod)
            several = transform.MergeCompositeFunctions()(fused)
            single = transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)
            for made in (fused, several, single):
                assert problems(made) == []
                same_values(run(made, *args), wanted)
        calls = [len(functions(made, "Codegen")) for made in (several, single)]
        merged += calls[0] < calls[1]
    assert merged > 4


def test_kernels_of_a_generators_own_run_in_the_machine() -> None:
    """Object code: the generator gives kernels, which are compiled into the executable."""
    register_patterns([conv_relu()])
    assert get_pattern("mine.conv2d_relu") is not None
    assert get_pattern("mine.other") is None

    @register_codegen("mine")
    def generate(given: Any, options: Any) -> Any:
        kernels = {}
        for func in given:
            x, w = (te.placeholder(p.struct_info.dims, "float32", p.name_hint) for p in func.params)
            out = tvm.topi.nn.relu(tvm.topi.nn.conv2d(x, w, 1, 1, 1))
            kernels[func.attrs["global_symbol"]] = te.create_prim_func([x, w, out])
        assert options == {"level": 3}
        return tvm.IRModule(kernels)

    patterns = get_patterns_with_prefix("mine")
    mod = transform.FuseOpsByPattern(patterns, annotate_codegen=True)(as_module(network))
    made = transform.RunCodegen({"mine": {"level": 3}})(mod)
    assert problems(made) == []
    assert functions(made, "Codegen") == []
    for mode in ("bytecode", "compiled"):
        machine = relax.VirtualMachine(relax.build(made, "llvm", exec_mode=mode), tvm.cpu())
        same_values(machine["main"](*inputs()).numpy(), run(as_module(network), *inputs()), 1e-3, 1e-3)


def test_packed_functions_and_modules_run_in_the_machine(tmp_path: Path) -> None:
    """Functions of the runtime: registered ones by name, or those of modules that the generator gives."""
    calls: list[str] = []

    def compute(given: Any) -> Any:
        def packed(x: Any, w: Any, out: Any) -> None:
            calls.append("packed")
            out.copyfrom(np.asarray(run(given, x.numpy(), w.numpy())))

        return packed

    @register_codegen("mine")
    def generate(given: Any, options: Any) -> None:
        for func in given:
            tvm.register_func(func.attrs["global_symbol"], compute(func), override=True)

    mod = transform.FuseOpsByPattern([conv_relu()])(as_module(network))
    merged = transform.MergeCompositeFunctions()(mod)
    assert len(functions(merged, "Codegen")) == 1  # both convolutions
    made = transform.RunCodegen()(merged)
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    same_values(machine["main"](*inputs()).numpy(), run(as_module(network), *inputs()), 1e-3, 1e-3)
    assert calls == ["packed"]

    @register_codegen("mine")
    def compiled(given: Any, options: Any) -> Any:
        modules = []
        for func in given:
            kernel = transform.LegalizeOps()(as_module(network))  # any kernel of two arrays and a result will do
            prim = next(f for name, f in kernel.items() if name.name_hint.startswith("conv2d"))
            modules.append(tvm.build(prim, target="llvm", name=func.attrs["global_symbol"]))
        return modules

    alone = transform.FuseOpsByPattern([("mine.conv", *make_conv2d_pattern())], annotate_codegen=True)(
        as_module(network)
    )
    made = transform.RunCodegen()(alone)
    executable = relax.build(made, "llvm")
    for suffix in ("", ".tunefarm", ".so"):  # modules of generators are saved with it
        if suffix:
            executable.export_library(str(tmp_path / f"model{suffix}"))
        held = tvm.runtime.load_module(str(tmp_path / f"model{suffix}")) if suffix else executable
        machine = relax.VirtualMachine(held, tvm.cpu())
        same_values(machine["main"](*inputs()).numpy(), run(as_module(network), *inputs()), 1e-3, 1e-3)
    executable.mod.import_module(relax.build(as_module(network), "llvm").mod)
    with pytest.raises(ArtifactError, match="cannot be written to a file: it has no artifact"):
        executable.save(str(tmp_path / "model.tunefarm"))


def test_generators_that_are_not_there() -> None:
    mod = transform.FuseOpsByPattern([conv_relu()], annotate_codegen=True)(as_module(network))
    with pytest.raises(ArgumentError, match="no code generator 'mine'"):
        transform.RunCodegen()(mod)
    tvm.register_func("relax.ext.mine", lambda given, options, names: [], override=True)
    try:
        made: Any = transform.RunCodegen()(mod)
    finally:
        remove_global_func("relax.ext.mine")
    values = [b.value for block in made["main"].body.blocks for b in block.bindings]
    assert sum(isinstance(v, Call) and v.op.name == "relax.call_dps_packed" for v in values) == 2


def test_first_blocks_of_kernels_are_a_librarys() -> None:
    """A product of any sizes is a packed function's, or a kernel's; what was fused to it stays a kernel."""
    m, k, n = (tvm.tir.Var(name, "int64") for name in "mkn")
    a, b = te.placeholder((m, k), "float32", "a"), te.placeholder((k, n), "float32", "b")
    product = te.create_prim_func([a, b, tvm.topi.nn.matmul(a, b)])

    @R.function
    def graph(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 5), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.nn.relu(lv)
            gv = R.exp(lv1)
            R.output(gv)
        return gv

    fused = relax.get_pipeline("fused")(as_module(graph))
    seen: list[Any] = []

    def library(matches: Any) -> Any:
        (found,) = matches
        seen.append([int(size) for size in found.symbol_values])
        return "library.matmul", 1

    def multiply(x: Any, w: Any, out: Any) -> None:
        out.copyfrom(x.numpy() @ w.numpy())

    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in ((3, 4), (4, 5))]
    wanted = np.exp(np.maximum(args[0] @ args[1], 0))
    tvm.register_func("library.matmul", multiply, override=True)
    try:
        made = transform.SplitCallTIRByPattern([product], library)(fused)
        assert problems(made) == []
        assert seen == [[3, 4, 5]]
        machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
        same_values(machine["main"](*args).numpy(), wanted)
    finally:
        remove_global_func("library.matmul")
    p, q = te.placeholder((3, 4), "float32", "p"), te.placeholder((4, 5), "float32", "q")
    kernel = te.create_prim_func([p, q, tvm.topi.nn.matmul(p, q)])
    own = transform.SplitCallTIRByPattern([product], lambda matches: (kernel, 1))(fused)
    same_values(run(own, *args), wanted)
    assert transform.SplitCallTIRByPattern([product], lambda matches: None)(fused) is not None
    with pytest.raises(ArgumentError, match="one block"):
        transform.SplitCallTIRByPattern([3], library)(fused)
