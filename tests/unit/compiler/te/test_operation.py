"""Describing computations: tensors, axes, reducers, and errors at the user's line."""

import pytest

from compiler.errors import IRError
from compiler.te import operation as te
from compiler.te.tensor import ComputeOp, PlaceholderOp, topological
from compiler.tir import ops
from compiler.tir.nodes import IterType, ProducerLoad, Reduce, SizeVar, Var


def test_placeholder_has_the_defaults_of_the_field() -> None:
    a = te.placeholder((4, 5))
    assert (a.name, a.dtype, a.ndim, a.value_index) == ("placeholder", "float32", 2, 0)
    assert [ops.as_int(d) for d in a.shape] == [4, 5]
    assert isinstance(a.op, PlaceholderOp)
    assert a.op.output(0) is a
    assert te.placeholder(7).ndim == 1


def test_indexing_with_brackets_and_with_calls() -> None:
    a = te.placeholder((4, 5), "int8", name="A")
    i, j = te.var("i"), te.var("j")
    for load in (a[i, j], a(i, j), a[i][j].asexpr() if hasattr(a[i][j], "tensor") else a[i][j]):
        assert isinstance(load, ProducerLoad)
        assert load.producer is a
        assert load.dtype == "int8"
        assert load.indices[0] is i
    assert (a[i][j] + 1).dtype == "int8"


def test_a_tensor_is_not_iterable() -> None:
    with pytest.raises(TypeError, match="symbolic"):
        list(te.placeholder((4,), name="A"))


def test_a_scalar_tensor_is_its_element() -> None:
    a = te.placeholder((), name="a")
    b = te.compute((3,), lambda i: a + i, name="b")
    assert b.op.input_tensors == (a,)


def test_compute_names_axes_after_parameters() -> None:
    a = te.placeholder((4, 5), name="A")
    named = te.compute((4, 5), lambda y, x: a[y, x])
    varargs = te.compute((4, 5), lambda *i: a(*i))
    given = te.compute((4, 5), lambda *i: a(*i), varargs_names=["p", "q"])
    mixed = te.compute((4, 5), lambda y, *rest: a(y, *rest))
    captured = te.compute((4, 5), lambda y, x, scale=2: a[y, x] * scale)
    names = [[axis.var.name for axis in t.op.axis] for t in (named, varargs, given, mixed, captured)]
    assert names == [["y", "x"], ["i0", "i1"], ["p", "q"], ["y", "i0"], ["y", "x"]]
    assert named.name == "compute"
    assert all(axis.iter_type is IterType.DATA_PAR for axis in named.op.axis)


def test_reduction_has_axes_and_inputs() -> None:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 6), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    op = c.op
    assert isinstance(op, ComputeOp)
    assert op.reduce_axis == (k,)
    assert op.input_tensors == (a, b)
    assert k.iter_type is IterType.COMM_REDUCE
    assert isinstance(op.body[0], Reduce)
    assert op.attrs == {}


@pytest.mark.parametrize(
    ("reducer", "dtype", "unit"),
    [
        (te.sum, "int32", 0), (te.prod, "int32", 1), (te.max, "int8", -128), (te.min, "uint8", 255),
        (te.max, "float32", -3.4028234663852886e38),
    ],
)  # fmt: skip
def test_units_of_reducers(reducer: te.Reducer, dtype: str, unit: float) -> None:
    a = te.placeholder((8,), dtype)
    k = te.reduce_axis((0, 8))
    reduce = reducer(a[k], axis=k)
    assert ops.is_const(reduce.combiner.identity_element[0], unit)


def test_max_and_min_also_combine_plain_values() -> None:
    x, y = te.var("x"), te.var("y")
    assert type(te.max(x, y)).__name__ == "Max"
    assert type(te.min(x, y, 3)).__name__ == "Min"


def test_reducer_over_pairs() -> None:
    def combine(left, right):
        return (ops.as_expr(te.if_then_else(left[1] >= right[1], left[0], right[0])), ops.maximum(left[1], right[1]))

    argmax = te.comm_reducer(combine, lambda t0, t1: (te.const(-1, t0), ops.min_value(t1)), name="argmax")
    idx, val = te.placeholder((4, 8), "int32", name="idx"), te.placeholder((4, 8), name="val")
    k = te.reduce_axis((0, 8), "k")
    t = te.compute((4,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    assert [x.dtype for x in t] == ["int32", "float32"]
    assert [x.name for x in t] == ["T.v0", "T.v1"]
    assert t[0].op is t[1].op


def test_several_outputs_share_axes() -> None:
    a = te.placeholder((4,), name="A")
    low, high = te.compute((4,), lambda i: (a[i] - 1, a[i] + 1), name="B")
    assert low.op is high.op
    assert (low.value_index, high.value_index) == (0, 1)


def test_symbolic_shapes() -> None:
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2)
    assert isinstance(n, SizeVar)
    assert b.shape[0] is n
    assert isinstance(te.var("m", "int64"), Var)
    assert te.var("m", "int64").dtype == "int64"


def test_a_whole_float_dimension_is_an_integer() -> None:
    assert ops.as_int(te.placeholder((32 / 4,)).shape[0]) == 8


def test_dimensions_beyond_int32_are_int64() -> None:
    a = te.placeholder((2**33,))
    assert te.compute((2**33,), lambda i: a[i]).op.axis[0].dtype == "int64"


def test_topological_order_visits_each_once() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    c = te.compute((4,), lambda i: a[i] + b[i], name="C")
    d = te.compute((4,), lambda i: b[i] + c[i], name="D")
    assert [op.name for op in topological([d])] == ["A", "B", "C", "D"]


def test_thread_axis_takes_a_tag_or_a_domain_and_a_tag() -> None:
    assert te.thread_axis("threadIdx.x").thread_tag == "threadIdx.x"
    block = te.thread_axis((0, 16), "blockIdx.y", name="by")
    assert (block.var.name, ops.as_int(block.dom.extent)) == ("by", 16)
    with pytest.raises(IRError, match="thread tag"):
        te.thread_axis((0, 16))


# ----------------------------------------------------------------------------------- errors

A = te.placeholder((4, 5), name="A")


def wrong_rank(i: Var, j: Var):
    return A[i, j, 0]


def test_wrong_rank_points_at_the_users_line() -> None:
    with pytest.raises(IRError, match=r"'A' has 2 dimensions, indexed with 3") as error:
        te.compute((4, 5), wrong_rank)
    line = wrong_rank.__code__.co_firstlineno + 1
    assert f"({__file__}:{line})" in error.value.message
    assert "in te.compute 'compute'" in error.value.message
    assert "(4, 5)" in error.value.hint


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: te.placeholder((4,), "flot32", name="X"), "placeholder 'X': unknown dtype 'flot32'"),
        (lambda: te.placeholder((4, -1), name="X"), "negative dimension -1"),
        (lambda: te.placeholder((4.5,), name="X"), "dimension 4.5, not an integer"),
        (lambda: te.compute((4,), lambda i, j: A[i, j]), "1 dimensions but its function takes 2"),
        (lambda: te.compute((4, 5), lambda i, j: A[i]), "'A' has 2 dimensions, indexed with 1"),
        (lambda: te.compute((4,), lambda i: A), "used as a number"),
        (lambda: te.compute((4,), lambda i: A[i, 1.5]), "index 1 of tensor 'A' must be an integer, got float32"),
        (lambda: te.compute((4,), lambda i: i / 2), "'/' on integers is ambiguous"),
        (lambda: te.compute((4,), lambda i: None), "returned nothing"),
        (lambda: te.compute((4,), lambda i: te.sum(A[i, 0], axis=i)), "sum reduces over te.reduce_axis axes, got i"),
        (lambda: te.compute((4,), lambda i: te.max(A)), "max is given nothing to reduce over"),
        (lambda: te.compute((4,), lambda i: "x"), "the function returned the text 'x'"),
        (lambda: te.compute(("4",), lambda i: A[i, 0]), "has a dimension '4', not an integer"),
        (lambda: te.compute((4,), lambda i: (A[i, 0] > 0) + (A[i, 1] > 0)), "Add of bool: bools are no numbers"),
        (lambda: te.compute((4,), lambda *i: A[i[0], 0], varargs_names=["p", "q"]), "varargs_names gives 2"),
        (lambda: te.reduce_axis(8), r"needs a domain (min, extent), got 8"),
    ],
)  # fmt: skip
def test_mistakes_are_named_at_the_users_line(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make()
    assert text in error.value.message
    assert __file__ in error.value.message


def test_a_reduction_inside_an_expression_is_refused() -> None:
    k = te.reduce_axis((0, 5))
    with pytest.raises(IRError, match="reduction inside another expression"):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) * 2)


def test_outputs_of_different_reductions_are_refused() -> None:
    k = te.reduce_axis((0, 5))
    with pytest.raises(IRError, match="not the same reduction"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.sum(A[i, k], axis=k)))


def test_reducing_over_what_is_no_reduce_axis_is_refused() -> None:
    b = te.compute((4, 5), lambda i, j: A[i, j])
    with pytest.raises(IRError, match=r"te\.reduce_axis"):
        te.sum(A[0, 0], axis=b.op.axis[1])
