"""Nodes of graphs: what they hold, what they refuse, how they compare."""

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.structural import structural_equal, structural_hash
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.runtime.core.ndarray import array
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor


def test_variables_are_compared_by_identity_and_keep_their_id() -> None:
    x, y = r.Var("x", tensor(2)), r.Var("x", tensor(2))
    assert x is not y
    assert x != y
    assert x.name_hint == "x"
    again = r.Var(x.vid, tensor(3))
    assert again.vid is x.vid
    assert r.Id("x") is not x.vid
    assert isinstance(r.DataflowVar("d"), r.Var)
    with pytest.raises(IRError, match="nothing is known yet of the variable d"):
        r.DataflowVar("d").struct_info
    with pytest.raises(IRError, match="which is none"):
        r.Var("x", (2, 3))  # type: ignore[arg-type]


def test_struct_info_is_set_once() -> None:
    x = r.Var("x")
    r.set_struct_info(x, tensor(2))
    r.set_struct_info(x, tensor(2))
    with pytest.raises(IRError, match="cannot become"):
        r.set_struct_info(x, tensor(3))


def test_nodes_cannot_be_changed() -> None:
    x = r.Var("x", tensor(2))
    with pytest.raises(AttributeError):
        x.span = None  # type: ignore[misc]
    call = r.Call(op.add(x, x).op, (x, x), {"a": 1})
    with pytest.raises(AttributeError):
        call.attrs.a = 2
    assert call.attrs.a == call.attrs["a"] == 1
    with pytest.raises(AttributeError, match="no attribute 'b'; there are: a"):
        call.attrs.b


def test_scalars_text_types() -> None:
    assert r.PrimValue(3).value.dtype == "int64"  # type: ignore[arg-type]
    assert r.PrimValue(3).struct_info == r.PrimStructInfo(value=3)  # type: ignore[arg-type]
    assert r.PrimValue(1.5).value.dtype == "float32"  # type: ignore[arg-type]
    assert r.StringImm("a").struct_info == r.ObjectStructInfo()
    assert r.DataTypeImm("float16").value == "float16"
    for bad in (lambda: r.StringImm(3), lambda: r.DataTypeImm("float17"), lambda: r.PrimValue(n.StringImm("x"))):  # type: ignore[arg-type]
        with pytest.raises(IRError):
            bad()


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (3, None, "int32"), (3.0, None, "float32"), (True, None, "bool"), (np.float64(2), None, "float64"),
        (np.arange(3), None, "int64"), (3, "float16", "float16"), (1.5, "bfloat16", "bfloat16"),
        (np.ones(2, "float32"), "int8", "int8"), (array(np.ones(2, "float32")), None, "float32"),
        (array(np.ones(2, "float32")), "int32", "int32"),
    ],
)  # fmt: skip
def test_const(value: Any, dtype: str | None, wanted: str) -> None:
    made = r.const(value, dtype)
    assert made.data.dtype == wanted
    assert isinstance(made.struct_info, r.TensorStructInfo)
    assert made.struct_info.dtype == wanted
    assert made.struct_info.ndim == np.ndim(value if not hasattr(value, "numpy") else value.numpy())


def test_constants_with_equal_contents_are_structurally_equal() -> None:
    a, b, c = (r.Constant(np.array(values, "float32")) for values in ([1, 2], [1, 2], [1, 3]))
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    assert not structural_equal(a, c)
    assert structural_hash(a) != structural_hash(c)
    with pytest.raises(IRError, match="is no"):
        r.Constant(np.ones(2, "float32"), tensor(3))
    assert r.Constant(np.ones((2, 3), "float32").T).array.shape == (3, 2)


def test_shapes_take_int64_only() -> None:
    m = n.Var("m", "int64")
    shape = r.ShapeExpr((m, 4, n.IntImm("int32", 5)))  # type: ignore[arg-type]
    assert [value.dtype for value in shape.values] == ["int64"] * 3
    assert shape.struct_info == r.ShapeStructInfo((m, 4, 5))  # type: ignore[arg-type]
    assert len(shape) == 3
    assert shape[0] is m
    with pytest.raises(IRError, match="of type int32, but dimensions are int64"):
        r.ShapeExpr((n.Var("k"),))
    with pytest.raises(IRError, match="not an integer"):
        r.ShapeExpr((1.5,))  # type: ignore[arg-type]
    with pytest.raises(IRError, match="takes a list"):
        r.ShapeExpr(4)  # type: ignore[arg-type]


def test_tuples_and_their_fields() -> None:
    x, y = r.Var("x", tensor(2)), r.Var("y", tensor(3))
    pair = r.Tuple((x, y))
    assert pair.struct_info == r.TupleStructInfo((tensor(2), tensor(3)))
    held = r.Var("t", pair.struct_info)
    assert r.TupleGetItem(held, 1).struct_info == tensor(3)
    assert [item.index for item in held] == [0, 1]
    assert held[-1].index == 1
    with pytest.raises(IndexError, match="field 2"):
        held[2]
    with pytest.raises(IRError, match="a tuple of 2 fields"):
        r.TupleGetItem(held, 2)
    with pytest.raises(TypeError, match="no tuple"):
        x[0]
    with pytest.raises(TypeError, match="it has no fields"):
        iter(x)
    assert pair[0] is x


def test_python_operators_build_calls() -> None:
    x = r.Var("x", tensor(2, dtype="float16"))
    made = {
        "add": x + x, "subtract": 1 - x, "multiply": x * 2.0, "divide": x / x, "floor_divide": x // x, "mod": x % x,
        "power": x**2, "negative": -x, "less": x < x, "greater": x > x, "less_equal": x <= x, "greater_equal": x >= x,
        "astype": x.astype("float32"),
    }  # fmt: skip
    for name, call in made.items():
        assert call.op is Op.get(f"relax.{name}")  # type: ignore[attr-defined]
    number = (x * 2.0).args[1]  # type: ignore[attr-defined]
    assert number.struct_info == r.TensorStructInfo((), "float16")  # type: ignore[arg-type]
    f = r.Var("f", r.FuncStructInfo([tensor(2)], tensor(2)))
    assert f(x).args == (x,)


def test_calls() -> None:
    x = r.Var("x", tensor(2))
    with pytest.raises(IRError, match=r"there is no operator 'relax\.ad'"):
        r.Call("relax.ad", (x,))  # type: ignore[arg-type]
    with pytest.raises(IRError, match="Call, number 0"):
        r.Call(Op.get("relax.add"), (object(),))  # type: ignore[arg-type]
    with pytest.raises(IRError, match="no operator and no function"):
        r.Call(3, (x,))  # type: ignore[arg-type]
    with pytest.raises(IRError, match="no StructInfo"):
        r.Call(Op.get("relax.add"), (x,), None, [3])  # type: ignore[list-item]
    assert isinstance(GlobalVar("f"), RelaxExpr)
    assert isinstance(Op.get("relax.add"), RelaxExpr)


def test_extern_functions_return_what_their_call_says() -> None:
    f = r.extern("my.func")
    assert isinstance(f, r.ExternFunc)
    info = f.struct_info
    assert isinstance(info, r.FuncStructInfo)
    assert info.is_opaque
    assert not info.purity
    with pytest.raises(IRError, match="of no function"):
        r.ExternFunc("my.func", tensor(2))
    with pytest.raises(IRError, match="is text"):
        r.ExternFunc("")


def test_bindings_blocks_and_conditions() -> None:
    x, c = r.Var("x", tensor(2)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
    binding = r.VarBinding(r.Var("y"), x)
    block = r.DataflowBlock([binding])  # type: ignore[arg-type]
    assert block.bindings == (binding,)
    assert isinstance(block, r.BindingBlock)
    branch = r.If(c, x, r.SeqExpr((block,), binding.var))  # type: ignore[arg-type]
    assert isinstance(branch.true_branch, r.SeqExpr)
    assert branch.true_branch.struct_info == tensor(2)
    cast = r.MatchCast(r.Var("z"), x, tensor(n.Var("k", "int64")))
    assert cast.struct_info.is_base_of(tensor(5)) is False
    for bad in (
        lambda: r.VarBinding(3, x), lambda: r.MatchCast(x, x, 3), lambda: r.BindingBlock([x]),
        lambda: r.SeqExpr([x], x),
    ):  # fmt: skip
        with pytest.raises(IRError, match="must be"):
            bad()  # type: ignore[no-untyped-call]


def test_functions() -> None:
    k = n.Var("k", "int64")
    x = r.Var("x", tensor(k, 4))
    func = r.Function([x], x, attrs={"global_symbol": "main"})
    assert func.struct_info == r.FuncStructInfo([tensor(k, 4)], tensor(k, 4))
    assert isinstance(func.body, r.SeqExpr)
    assert func.with_attr("a", 1).attrs == {"global_symbol": "main", "a": 1}
    assert func.without_attr("global_symbol").attrs == {}
    empty = r.Function.create_empty([x], tensor(k, 4), is_pure=False)
    assert empty.struct_info == r.FuncStructInfo([tensor(k, 4)], tensor(k, 4), purity=False)
    with pytest.raises(IRError, match="normalised"):
        r.Function([x], r.Call(Op.get("relax.add"), (x, x)))
    with pytest.raises(IRError, match="has no StructInfo"):
        r.Function([r.Var("y")], x)
    with pytest.raises(IRError, match="given twice"):
        r.Function([x, x], x)
    with pytest.raises(IRError, match=r"no relax\.Var"):
        r.Function([n.Var("i")], x)  # type: ignore[list-item]


def test_functions_are_compared_up_to_names() -> None:
    def make(name: str, size: str) -> r.Function:
        x = r.Var(name, tensor(n.Var(size, "int64"), 4))
        return r.Function([x], x)

    assert structural_equal(make("x", "m"), make("y", "k"))
    assert structural_hash(make("x", "m")) == structural_hash(make("y", "k"))
    z = r.Var("z", tensor(3, 4))
    assert not structural_equal(make("x", "m"), r.Function([z], z))


def test_bind_symbolic_vars() -> None:
    k, m = n.Var("k", "int64"), n.Var("m", "int64")
    x, y = r.Var("x", tensor(k, m)), r.Var("y", tensor(k * 2))
    func = r.Function([x, y], r.Tuple((x, y)))
    bound = func.bind_symbolic_vars({"k": 8, m: k + 1})  # type: ignore[dict-item]
    assert bound.params[1].struct_info == tensor(16)
    assert bound.params[0].vid is x.vid
    assert repr(bound.ret_struct_info).startswith("R.Tuple(R.Tensor((8, k + 1)")
    assert func.params[0] is x
    with pytest.raises(IRError, match="no symbolic variable 'q'") as error:
        func.bind_symbolic_vars({"q": 3})  # type: ignore[dict-item]
    assert "k, m" in str(error.value)
    with pytest.raises(IRError, match="bound twice"):
        func.bind_symbolic_vars({"k": 3, k: 4})  # type: ignore[dict-item]
    other = r.Var("o", tensor(n.Var("k", "int64")))
    with pytest.raises(IRError, match="2 symbolic variables called 'k'"):
        r.Function([x, other], x).bind_symbolic_vars({"k": 3})  # type: ignore[dict-item]


def test_bind_params_learns_dimensions() -> None:
    k = n.Var("k", "int64")
    x, w = r.Var("x", tensor(k, 4)), r.Var("w", tensor(4, k))
    func = r.Function([x, w], r.Tuple((x, w)))
    bound = func.bind_params({"w": np.ones((4, 8), "float32")})
    assert [param.name_hint for param in bound.params] == ["x"]
    assert bound.params[0].struct_info == tensor(8, 4)
    with pytest.raises(IRError, match=r"the parameter w is a .* does not fit: a dimension is 5, not 4"):
        func.bind_params({w: np.ones((5, 8), "float32")})
    with pytest.raises(IRError, match="element type is float64"):
        func.bind_params({w: np.ones((4, 8))})
    with pytest.raises(IRError, match="no parameter 'v'"):
        func.bind_params({"v": np.ones((4, 8))})


def test_convert_to_expr() -> None:
    x = r.Var("x", tensor(2))
    assert r.convert_to_expr(x) is x
    assert isinstance(r.convert_to_expr(3), r.PrimValue)
    assert isinstance(r.convert_to_expr(n.Var("i")), r.PrimValue)
    assert isinstance(r.convert_to_expr("a"), r.StringImm)
    nested = r.convert_to_expr([x, (1, "a")])
    assert isinstance(nested, r.Tuple)
    assert isinstance(nested.fields[1], r.Tuple)
    for bad in (n.StringImm("a"), object(), None):
        with pytest.raises(TypeError):
            r.convert_to_expr(bad)
    with pytest.raises(ArgumentError, match="may mean"):
        r.convert_to_expr(n.StringImm("a"))


def test_a_parameter_may_use_a_size_of_a_later_one() -> None:
    def make(name: str, add: int = 1) -> r.Function:
        size = n.Var(name, "int64")
        params = [r.Var("x", r.TensorStructInfo((size + add,))), r.Var("y", r.TensorStructInfo((size,)))]
        return r.Function(params, r.SeqExpr((), params[1]), r.TensorStructInfo((size,)))

    assert structural_equal(make("m"), make("k"))
    assert structural_hash(make("m")) == structural_hash(make("k"))
    assert not structural_equal(make("m"), make("k", 2))
