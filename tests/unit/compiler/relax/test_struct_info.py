"""StructInfo: comparing, covering, erasing, what two have in common, results of calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import IRError
from compiler.relax.analysis import (
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_base_check,
    struct_info_lca,
    tir_vars_in_struct_info,
)
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import (
    BaseCheckResult,
    FuncStructInfo,
    FuncType,
    ObjectStructInfo,
    ObjectType,
    PackedFuncType,
    PrimStructInfo,
    PrimType,
    ShapeStructInfo,
    ShapeType,
    StructInfo,
    TensorStructInfo,
    TensorType,
    TupleStructInfo,
    TupleType,
    Var,
)
from compiler.relax.struct_info.signature import prim_func_info
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.topi import add
from tests.kit.compiler.struct_info import tensor

K, M = n.Var("k", "int64"), n.Var("m", "int64")


def shape(*values: Any) -> ShapeStructInfo:
    return ShapeStructInfo(values)


def test_defaults_and_texts() -> None:
    assert repr(TensorStructInfo()) == 'R.Tensor(dtype="float32")'
    assert TensorStructInfo(None, "").ndim == -1
    assert repr(tensor(K, 4)) == 'R.Tensor((k, 4), dtype="float32")'
    assert repr(TensorStructInfo(ndim=2)) == 'R.Tensor(dtype="float32", ndim=2)'
    assert repr(shape(K, K * 2)) == "R.Shape([k, k * 2])"
    assert FuncStructInfo([], tensor(2)).purity is True
    assert FuncStructInfo.opaque_func().purity is False
    assert PrimStructInfo("int64").value is None
    assert PrimStructInfo(value=3).dtype == "int64"  # type: ignore[arg-type]
    assert PrimStructInfo("float16", 1.5).dtype == "float16"  # type: ignore[arg-type]
    assert TensorStructInfo((2,), "float32", "cuda:1").vdevice.vdevice_id == 1  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize(
    "bad",
    [
        lambda: TensorStructInfo((2, 3), ndim=3),
        lambda: TensorStructInfo((2, 3), ndim=2),
        lambda: ShapeStructInfo((2, 3), 2),
        lambda: TensorStructInfo(ndim=-2),
        lambda: TensorStructInfo((2,), "float33"),
        lambda: TensorStructInfo(4),
        lambda: TensorStructInfo(Var("x", TensorStructInfo((2,)))),  # type: ignore[arg-type]
        lambda: ShapeStructInfo((2, 3), 1),
        lambda: PrimStructInfo(),
        lambda: PrimStructInfo("int32", n.IntImm("int64", 3)),
        lambda: TupleStructInfo((3,)),
        lambda: FuncStructInfo([tensor(2)], None),
        lambda: FuncStructInfo.opaque_func(ret=tensor(2), derive_func=lambda call, builder: tensor(2)),
        lambda: FuncStructInfo.opaque_func(derive_func="nobody.knows"),
    ],
)
def test_refusals_are_value_errors(bad: Any) -> None:
    with pytest.raises(ValueError):
        bad()


def test_equality_is_by_structure() -> None:
    assert tensor(K, 4) == tensor(K, 4)
    assert hash(tensor(K, 4)) == hash(tensor(K, 4))
    assert tensor(K, 4).same_as(tensor(K, 4))
    assert tensor(K, 4) != tensor(M, 4)
    assert tensor(2) != tensor(2, dtype="int8")
    assert shape(2) != tensor(2)
    assert PrimStructInfo("int64") != PrimStructInfo(value=3)  # type: ignore[arg-type]
    assert TupleStructInfo((tensor(2),)) != TupleStructInfo(())
    s = Var("s", ShapeStructInfo(ndim=2))
    assert TensorStructInfo(s) == TensorStructInfo(s)
    assert TensorStructInfo(s) != TensorStructInfo(ndim=2)
    # functions: up to the names of their own dimensions
    assert FuncStructInfo([tensor(K)], tensor(K)) == FuncStructInfo([tensor(M)], tensor(M))
    assert FuncStructInfo([tensor(K)], tensor(K)) != FuncStructInfo([tensor(K)], tensor(M))
    swapped = FuncStructInfo([tensor(M), tensor(K)], tensor(M + K))
    assert FuncStructInfo([tensor(K), tensor(M)], tensor(K + M)) == swapped


@pytest.mark.parametrize(
    ("base", "derived", "wanted"),
    [
        (ObjectStructInfo(), tensor(2), BaseCheckResult.PASS),
        (tensor(2), ObjectStructInfo(), BaseCheckResult.FAIL_L1),
        (tensor(2), shape(2), BaseCheckResult.FAIL_L0),
        (tensor(2), tensor(3), BaseCheckResult.FAIL_L0),
        (tensor(K), tensor(3), BaseCheckResult.FAIL_L2),
        (tensor(K), tensor(K + 1), BaseCheckResult.FAIL_L0),
        (tensor(K * 2), tensor(K + K), BaseCheckResult.PASS),
        (TensorStructInfo(ndim=1), tensor(K), BaseCheckResult.PASS),
        (TensorStructInfo(None, ""), tensor(K), BaseCheckResult.PASS),
        (tensor(K), TensorStructInfo(ndim=1), BaseCheckResult.FAIL_L1),
        (tensor(K), TensorStructInfo(ndim=2), BaseCheckResult.FAIL_L0),
        (tensor(2), TensorStructInfo((2,), ""), BaseCheckResult.FAIL_L1),  # type: ignore[arg-type]
        (ShapeStructInfo(), shape(2), BaseCheckResult.PASS),
        (shape(2), ShapeStructInfo(), BaseCheckResult.FAIL_L1),
        (PrimStructInfo("int64"), PrimStructInfo(value=3), BaseCheckResult.PASS),  # type: ignore[arg-type]
        (PrimStructInfo("int64"), PrimStructInfo("int32"), BaseCheckResult.FAIL_L0),
        (TupleStructInfo((tensor(2),)), TupleStructInfo(()), BaseCheckResult.FAIL_L0),
        (TupleStructInfo((ObjectStructInfo(),)), TupleStructInfo((tensor(2),)), BaseCheckResult.PASS),
        (FuncStructInfo([tensor(2)], ObjectStructInfo()), FuncStructInfo([tensor(2)], tensor(2)), BaseCheckResult.PASS),
        (FuncStructInfo([], tensor(2)), FuncStructInfo([], tensor(2), False), BaseCheckResult.FAIL_L0),
        (FuncStructInfo.opaque_func(), FuncStructInfo([tensor(2)], tensor(2)), BaseCheckResult.PASS),
        (FuncStructInfo([], tensor(2), False), FuncStructInfo.opaque_func(), BaseCheckResult.FAIL_L1),
        (FuncStructInfo([], tensor(2)), FuncStructInfo([tensor(2)], tensor(2)), BaseCheckResult.FAIL_L0),
    ],
)
def test_base_check(base: StructInfo, derived: StructInfo, wanted: BaseCheckResult) -> None:
    assert struct_info_base_check(base, derived) is wanted
    assert base.is_base_of(derived) == (wanted is BaseCheckResult.PASS)


dims = st.sampled_from([1, 2, 3, K, M, K + M, K * 2])
infos: st.SearchStrategy[StructInfo] = st.recursive(
    st.one_of(
        st.builds(lambda d, t: tensor(*d, dtype=t), st.lists(dims, max_size=2), st.sampled_from(["float32", "int8"])),
        st.builds(lambda r: TensorStructInfo(ndim=r), st.integers(-1, 2)),
        st.builds(lambda d: shape(*d), st.lists(dims, max_size=2)),
        st.builds(lambda r: ShapeStructInfo(ndim=r), st.integers(-1, 2)),
        st.builds(lambda v: PrimStructInfo("int64", v), st.sampled_from([None, K, M])),
        st.just(ObjectStructInfo()),
    ),
    lambda inner: st.one_of(
        st.builds(lambda f: TupleStructInfo(tuple(f)), st.lists(inner, max_size=2)),
        st.builds(lambda p, r: FuncStructInfo(p, r), st.lists(inner, max_size=2), inner),
    ),
    max_leaves=4,
)


@given(infos, infos)
def test_what_two_have_in_common_covers_both(a: StructInfo, b: StructInfo) -> None:
    found = struct_info_lca(a, b)
    if not isinstance(a, FuncStructInfo):  # parameters are covered the other way round
        assert found.is_base_of(a)
        assert found.is_base_of(b)
    assert struct_info_lca(a, a) == a
    assert a.is_base_of(a)


@given(infos)
def test_erasing_covers_what_it_erases(info: StructInfo) -> None:
    erased = erase_to_well_defined(info)
    assert erased.is_base_of(info)
    if not isinstance(info, FuncStructInfo | TupleStructInfo):
        assert not tir_vars_in_struct_info(erased)
    kept = erase_to_well_defined(info, {K: K, M: M})
    assert kept == info


def test_erasing_replaces_what_has_a_value() -> None:
    info = TupleStructInfo((tensor(K, M), shape(K * 2), PrimStructInfo(value=M)))
    found = erase_to_well_defined(info, {K: n.IntImm("int64", 3)})
    assert found == TupleStructInfo((TensorStructInfo(ndim=2), shape(6), PrimStructInfo("int64")))
    s = Var("s", ShapeStructInfo(ndim=2))
    assert erase_to_well_defined(TensorStructInfo(s)) == TensorStructInfo(ndim=2)
    assert erase_to_well_defined(TensorStructInfo(s), var_map={s: s}) == TensorStructInfo(s)


def test_dimensions_mentioned_and_defined() -> None:
    info = TupleStructInfo((tensor(K * 2, M), shape(K)))
    assert [id(var) for var in tir_vars_in_struct_info(info)] == [id(K), id(M)]
    assert set(definable_tir_vars_in_struct_info(tensor(K * 2, M))) == {M}
    assert len(collect_non_negative_expressions(tensor(K * 2, 3, M))) == 2


def test_static_types() -> None:
    assert get_static_type(tensor(K, 2)) == TensorType(2)
    assert get_static_type(shape(K)) == ShapeType(1)
    assert get_static_type(PrimStructInfo("int64")) == PrimType("int64")
    assert get_static_type(TupleStructInfo((tensor(2),))) == TupleType((TensorType(1),))
    assert get_static_type(FuncStructInfo([tensor(2)], shape(2))) == FuncType((TensorType(1),), ShapeType(1))
    assert get_static_type(FuncStructInfo.opaque_func()) == PackedFuncType()
    assert get_static_type(ObjectStructInfo()) == ObjectType()
    for bad in (lambda: TensorType(-2), lambda: ShapeType(-3)):
        with pytest.raises(IRError):
            bad()


def test_calls_of_functions_learn_dimensions() -> None:
    f = Var("f", FuncStructInfo([tensor(K, 4), tensor(M)], tensor(K * 2, M)))
    bb, other = BlockBuilder(), n.Var("o", "int64")
    x, y = Var("x", tensor(other, 4)), Var("y", tensor(7))
    assert bb.normalize(f(x, y)).struct_info == tensor(other * 2, 7)
    z = Var("z", TensorStructInfo(ndim=1))
    assert bb.normalize(f(x, z)).struct_info == TensorStructInfo(ndim=2)
    with pytest.raises(IRError, match="takes 2 arguments, got 1") as error:
        bb.normalize(f(x))
    assert "test_struct_info.py" in str(error.value)
    with pytest.raises(IRError, match=r"argument 0 does not fit the variable f: a dimension is 7, not 4"):
        bb.normalize(f(Var("w", tensor(3, 7)), y))
    with pytest.raises(IRError, match="it is a shape, not a tensor"):
        bb.normalize(f(Var("w", shape(3)), y))
    with pytest.raises(IRError, match="is called, but it is no function"):
        bb.normalize(x(y))


def test_struct_info_of_kernels() -> None:
    size = n.Var("size", "int64")
    a, b = placeholder((size, 4), "float32", "A"), placeholder((4,), "float32", "B")
    info = prim_func_info(create_prim_func([a, b, add(a, b), n.Var("q", "int64")]))
    assert info.params == (tensor(size, 4), tensor(4), tensor(size, 4), PrimStructInfo("int64"))
    assert not info.purity
    old = placeholder((n.Var("i"), 4), "float32", "A")
    assert prim_func_info(create_prim_func([old, add(old, old)])).params[0] == TensorStructInfo(ndim=2)  # type: ignore[index]
