"""The table of operators: what every declaration has, how calls are made, what is known of results, errors."""

import inspect
from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.op.core.layout import Layout, LayoutUse
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OPERATORS, OpPatternKind, RefusedPart, operator, operator_of, refused
from compiler.relax.op.core.work import nothing
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.compiler.struct_info import tensor

K, M = n.Var("k", "int64"), n.Var("m", "int64")


def var(*shape: Any, dtype: str = "float32") -> r.Var:
    return r.Var("x", tensor(*shape, dtype=dtype))


def info(call: Any) -> r.StructInfo:
    found: r.StructInfo = BlockBuilder().normalize(call).struct_info
    return found


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_part_of_a_declaration_is_there_or_says_why_not(name: str) -> None:
    entry = OPERATORS[name]
    assert entry.doc
    assert entry.doc[0].isupper()
    assert not entry.doc.startswith(("Of ", "With ", "Whose ", "What "))
    assert len(entry.doc.splitlines()[0]) < 100
    for part in (entry.te, entry.legalize, entry.host, entry.layout, entry.flops, entry.bytes, entry.gradient):
        assert callable(part) or (isinstance(part, RefusedPart) and len(part.reason) > 5)
    assert entry.op.pure == entry.pure
    assert entry.name == name == entry.op.name


def test_functions_have_signatures_and_docs() -> None:
    assert str(inspect.signature(op.nn.softmax)) == "(data: 'TensorArg', axis: 'int' = -1) -> 'Expr'"
    assert op.add.__name__ == "add"
    assert "broadcasting" in str(op.add.__doc__)
    assert op.matmul.__module__ == "compiler.relax.op.linear_algebra"


def test_calls_hold_arguments_and_attributes() -> None:
    x = var(2, 3)
    call = op.reshape(x, (3, 2))
    assert isinstance(call.args[1], r.ShapeExpr)
    assert dict(op.permute_dims(x, axes=[1, 0]).attrs) == {"axes": (1, 0)}
    assert op.nn.softmax(x).attrs.axis == -1
    assert call.span is not None
    assert call.span.source.endswith("test_declarations.py")
    made = op.add(x, np.ones((2, 3), "float32"))
    assert isinstance(made.args[1], r.Constant)
    assert isinstance(op.add(var(2, dtype="float16"), 1).args[1].struct_info, r.TensorStructInfo)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: op.nn.softmax(x, 1.5), "relax.nn.softmax: the attribute axis is 1.5 (float), not an integer"),
        (lambda x: op.nn.softmax(x, axs=1), "relax.nn.softmax has no parameter 'axs'"),
        (lambda x: op.nn.softmax(x, -1, 3), "relax.nn.softmax takes 2 arguments, got 3"),
        (lambda x: op.nn.softmax(x, data=x), "relax.nn.softmax: data is given twice"),
        (lambda x: op.nn.softmax(), "relax.nn.softmax needs data"),
        (lambda x: op.add(x, object()), "relax.add: the argument x2 is"),
        (lambda x: op.astype(x, "float33"), "relax.astype: the attribute dtype is 'float33'"),
        (lambda x: op.reshape(x, (1.5,)), "relax.reshape: the argument shape is (1.5,) (tuple), not a shape"),
        (lambda x: op.call_tir(GlobalVar("f"), [x], 3), "relax.call_tir: out_sinfo is 3 (int), no StructInfo"),
    ],
)
def test_bad_arguments_are_type_errors(make: Any, message: str) -> None:
    with pytest.raises(TypeError) as error:
        make(var(2))
    assert message in str(error.value)
    assert isinstance(error.value, ArgumentError)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (tensor(2, 3), tensor(2, 3), tensor(2, 3)),
        (tensor(2, 3), tensor(3), tensor(2, 3)),
        (tensor(2, 1), tensor(1, 3), tensor(2, 3)),
        (tensor(K, 1), tensor(K, 4), tensor(K, 4)),
        (tensor(K * 2), tensor(K + K), tensor(K * 2)),
        (tensor(), tensor(K), tensor(K)),
        (tensor(K), tensor(M), r.TensorStructInfo(ndim=1)),
        (r.TensorStructInfo(ndim=2), tensor(3), r.TensorStructInfo(ndim=2)),
        (r.TensorStructInfo(), tensor(3), r.TensorStructInfo()),
        (r.TensorStructInfo((2,), ""), tensor(2), r.TensorStructInfo((2,), "")),  # type: ignore[arg-type]
    ],
)
def test_broadcasting(a: r.TensorStructInfo, b: r.TensorStructInfo, wanted: r.StructInfo) -> None:
    assert info(op.add(r.Var("a", a), r.Var("b", b))) == wanted


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: op.less(var(2), var(2)), tensor(2, dtype="bool")),
        (lambda: op.astype(var(K), "int8"), tensor(K, dtype="int8")),
        (lambda: op.permute_dims(var(2, K, 4)), tensor(4, K, 2)),
        (lambda: op.permute_dims(var(2, K, 4), [0, -1, 1]), tensor(2, 4, K)),
        (lambda: op.permute_dims(r.Var("x", r.TensorStructInfo()), [1, 0]), r.TensorStructInfo(ndim=2)),
        (lambda: op.permute_dims(r.Var("x", r.TensorStructInfo())), r.TensorStructInfo()),
        (lambda: op.reshape(var(2, 6), (3, -1)), tensor(3, 4)),
        (lambda: op.reshape(var(K, 6), (0, 2, -1)), tensor(K, 2, 3)),
        (lambda: op.reshape(var(K, 6), (-1,)), tensor(K * 6)),
        (lambda: op.reshape(var(K, 6), r.Var("s", r.ShapeStructInfo((K * 2, 3)))), tensor(K * 2, 3)),  # type: ignore[arg-type]
        (lambda: op.matmul(var(2, 3), var(3, 4)), tensor(2, 4)),
        (lambda: op.matmul(var(K, 1, 2, 3), var(5, 3, 4)), tensor(K, 5, 2, 4)),
        (lambda: op.matmul(var(3), var(3, 4)), tensor(4)),
        (lambda: op.matmul(var(3), var(3)), tensor()),
        (lambda: op.matmul(var(2, 3), var(3)), tensor(2)),
        (lambda: op.matmul(var(K, 3), var(M, 4)), tensor(K, 4)),
        (lambda: op.matmul(var(2, 3, dtype="int8"), var(3, 4, dtype="int8"), "int32"), tensor(2, 4, dtype="int32")),
        (lambda: op.matmul(r.Var("x", r.TensorStructInfo(ndim=3)), var(3, 4)), r.TensorStructInfo(ndim=3)),
        (lambda: op.shape_of(var(2, K)), r.ShapeStructInfo((2, K))),
        (lambda: op.shape_of(r.Var("x", r.TensorStructInfo(ndim=2))), r.ShapeStructInfo(ndim=2)),
        (lambda: op.print(var(2)), r.TupleStructInfo(())),
        (
            lambda: op.call_pure_packed("f", sinfo_args=[tensor(2), tensor(3)]),
            r.TupleStructInfo((tensor(2), tensor(3))),
        ),
        (lambda: op.call_pure_packed("f", sinfo_args=[]), r.ObjectStructInfo()),
        (lambda: op.call_dps_packed("f", var(2), tensor(3)), tensor(3)),
        (lambda: op.call_tir(GlobalVar("f"), [], [tensor(2)]), r.TupleStructInfo((tensor(2),))),
    ],
)
def test_what_is_known_of_results(make: Any, wanted: r.StructInfo) -> None:
    assert info(make()) == wanted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: op.add(var(2, 3), var(4)),
            "relax.add: x1 and x2 do not broadcast: dimension -1 is 3 and 4; x1 is (2, 3) of float32, x2 is (4,) of",
        ),
        (lambda: op.add(var(2), var(2, dtype="int8")), "relax.add: the element types differ: x1 float32 and x2 int8"),
        (
            lambda: op.add(var(2), r.Var("s", r.ShapeStructInfo((2,)))),
            "relax.add: x2 must be a tensor, got R.Shape([2])",
        ),
        (lambda: op.matmul(var(2, 3), var(4, 5)), "relax.matmul: the dimensions that are summed over differ: 3 and 4"),
        (lambda: op.matmul(var(), var(4, 5)), "relax.matmul: x1 must have at least one dimension"),
        (lambda: op.reshape(var(2, 3), (4,)), "relax.reshape: cannot reshape x, (2, 3) of float32, to (4,)"),
        (lambda: op.reshape(var(2, 3), (4, -1)), "relax.reshape: cannot reshape x, (2, 3) of float32, to (4, -1)"),
        (lambda: op.reshape(var(2, 3), (-1, -1)), "has more than one -1"),
        (lambda: op.reshape(var(2, 3), (-2, 3)), "has a negative dimension"),
        (lambda: op.reshape(var(2), (2, 0)), "has a 0 in dimension 1"),
        (lambda: op.permute_dims(var(2, 3), (0, 0)), "names a dimension twice"),
        (lambda: op.permute_dims(var(2, 3), (0,)), "relax.permute_dims: axes is (0,), but x has 2 dimensions"),
        (lambda: op.nn.softmax(var(2, dtype="int8")), "data must have floating point elements, got int8"),
        (lambda: op.nn.softmax(var(2), 1), "relax.nn.softmax: axis is 1, but there are 1 dimensions"),
        (lambda: op.call_dps_packed("f", [], r.TensorStructInfo(ndim=2)), "out_sinfo must be tensors of known shape"),
        (lambda: op.call_tir("f", [], tensor(2)), "gvar must be the name of a function in the module"),
    ],
)
def test_errors_name_operator_argument_shapes_and_line(make: Any, message: str) -> None:
    with pytest.raises(IRError) as error:
        info(make())
    assert message in str(error.value)
    assert "test_declarations.py:" in str(error.value)


def test_kernels_are_checked_against_their_calls() -> None:
    bb = BlockBuilder()
    x = var(K, 4)
    with bb.function("main", [x]):
        made = bb.call_te(lambda t: [t, t], x)
        gvar: Any = made.args[0]
        assert bb.normalize(op.call_tir(gvar, [x], [tensor(K, 4), tensor(K, 4)])) is not None
        for args, out, message in (
            ([x], [tensor(K, 4)], "takes 3 arguments, got 1 inputs, 1 outputs and 0 scalars"),
            ([var(K, 5)], [tensor(K, 5)] * 2, "argument 0 does not fit the function te_func: a dimension is 5, not 4"),
            ([x], [tensor(K, 4), tensor(K + 1, 4)], "output 1 does not fit the function te_func"),
            ([var(K, 4, dtype="int8")], [tensor(K, 4)] * 2, "the element type is int8, not float32"),
        ):
            with pytest.raises(IRError) as error:
                bb.normalize(op.call_tir(gvar, args, out))
            assert message in str(error.value)
        bb.emit_func_output(bb.emit(made))
    held = r.Var("t", r.TupleStructInfo((tensor(2), tensor(3))))
    spread = op.call_tir(GlobalVar("f"), held, tensor(2)).args[1]
    assert isinstance(spread, r.Tuple)
    assert len(spread.fields) == 2


def test_work() -> None:
    bb = BlockBuilder()
    call = bb.normalize(op.matmul(var(K, 3), var(3, 4)))
    work = operator_of("relax.matmul").work(call)
    assert ops.as_int(bb.analyzer.simplify(work.flops - K * 24)) == 0  # type: ignore[operator]
    assert ops.as_int(bb.analyzer.simplify(work.bytes - (K * 12 + 48 + K * 16))) == 0  # type: ignore[operator]
    unknown = bb.normalize(op.add(r.Var("x", r.TensorStructInfo(ndim=1)), var(3)))
    assert operator_of("relax.add").work(unknown).flops is None
    assert operator_of("relax.call_tir").work(unknown).flops is None
    reshaped = bb.normalize(op.reshape(var(2, 3), (6,)))
    assert ops.as_int(operator_of("relax.reshape").work(reshaped).flops) == 0


def test_layouts() -> None:
    nhwc = Layout.between("NCHW", "NHWC")
    assert nhwc == Layout.permuted((0, 2, 3, 1))
    assert (nhwc.axis(1), nhwc.axis(-1), nhwc.ndim, nhwc.is_identity) == (3, 2, 4, False)
    blocked = Layout.between("NCHW", "NCHW16c")
    assert blocked.dims[-1] == (1, 16)
    assert not blocked.is_permutation
    for bad in ("NHW", "NCHWc", "NCHW16", "NCHX"):
        with pytest.raises(IRError, match="does not fit"):
            Layout.between("NCHW", bad)
    x = var(1, 2, 3, 4)

    def rule(call: r.Call, *inputs: Layout | None) -> Any:
        entry: Any = operator_of(call.op)  # type: ignore[arg-type]
        return entry.layout(LayoutUse(BlockBuilder().normalize(call), inputs, {}))

    found = rule(op.nn.softmax(x, 1), nhwc)
    assert (found.outputs, dict(found.attrs)) == ((nhwc,), {"axis": 3})
    assert rule(op.add(x, x), nhwc, None).inputs == (nhwc, nhwc)
    assert rule(op.add(x, var(4)), nhwc, None).inputs == (nhwc, nhwc)  # the vector gets dimensions of 1
    assert rule(op.add(x, var()), nhwc, None).inputs == (nhwc, None)
    assert rule(op.add(x, r.Var("y", r.TensorStructInfo(None, "float32"))), nhwc, None).outputs == (None,)
    sixteen = BlockBuilder().normalize(op.add(var(1, 32, 3, 4), var(1, 32, 3, 4)))
    assert rule(sixteen, blocked, None).inputs == (blocked, blocked)  # type: ignore[arg-type]
    assert rule(BlockBuilder().normalize(op.add(var(1, 32, 3, 4), var(32, 1, 1))), blocked, None).outputs == (None,)  # type: ignore[arg-type]
    slices = rule(op.strided_slice(x, [1, -1], [0, 0], [1, 2]), nhwc)
    assert [axis.value.value for axis in slices.args[1].fields] == [3, 2]
    assert rule(op.concat([x, x], 1), (None, nhwc)).inputs == ((nhwc, nhwc),)  # type: ignore[arg-type]
    crosswise = Layout.permuted((1, 0, 2, 3))
    assert rule(op.matmul(x, var(4, 2)), crosswise, None).outputs == (crosswise,)
    assert rule(op.matmul(x, var(4, 2)), nhwc, None).outputs == (None,)
    assert rule(op.reshape(x, (24,)), nhwc, None).outputs == (None,)
    moved = rule(op.permute_dims(x, (0, 2, 3, 1)), nhwc)
    assert (moved.inputs, dict(moved.attrs)) == ((nhwc,), {"axes": (0, 1, 2, 3)})


def test_declaring_operators() -> None:
    rules: dict[str, Any] = {
        "infer": lambda use: use.tensor("x"), "pattern": OpPatternKind.OPAQUE, "flops": nothing,
        "layout": refused("a test"), "gradient": refused("a test"),
    }  # fmt: skip

    def toy(x: TensorArg, times: int = 2, *, note: str | None = None) -> r.Expr:
        """Repeat a tensor."""
        raise AssertionError

    with pytest.raises(IRError, match="says nowhere what it computes"):
        operator("relax.test_toy", te=refused("a test"), **rules)(toy)
    made = operator("relax.test_toy", te=lambda x, times, note: x, canonical=lambda a: {**a, "times": 3}, **rules)(toy)
    try:
        call = made(var(2))
        assert dict(call.attrs) == {"times": 3, "note": None}
        assert info(call) == tensor(2)
        with pytest.raises(IRError, match="declared twice"):
            operator("relax.test_toy", te=lambda x: x, **rules)
        assert [p.name for p in operator_of("relax.test_toy").attributes] == ["times", "note"]
    finally:
        del OPERATORS["relax.test_toy"]
    with pytest.raises(IRError, match=r"did you mean 'relax\.matmul'"):
        operator_of("relax.matmull")
