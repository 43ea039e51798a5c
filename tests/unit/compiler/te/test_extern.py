"""Operations written by hand, and the builder they are written with."""

import numpy as np
import pytest

from compiler.errors import IRError, ScheduleError
from compiler.interp import interpreter as interp
from compiler.te import operation as te
from compiler.te.extern import ExternOp, extern
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.schedule import create_schedule
from compiler.tir import ir_builder
from compiler.tir import nodes as n
from compiler.tir.intrin.intrin import call_packed

A = te.placeholder((3, 4), name="A")


def copying(ins, outs):
    ib = ir_builder.create()
    x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 12, "i") as i:
        y[i] = x[i]
    return ib.get()


def test_an_extern_is_an_operation_like_others() -> None:
    out = extern((3, 4), [A], copying, name="copy", tag="by_hand", attrs={"level": 1})
    assert isinstance(out.op, ExternOp)
    assert (out.name, out.dtype, out.op.tag, out.op.attrs) == ("copy", "float32", "by_hand", {"level": 1})
    assert out.op.input_tensors == (A,)
    assert (out.op.axis, out.op.reduce_axis) == ((), ())
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((3, 4), "float32")
    interp.run(create_prim_func([A, out]), x, y)
    np.testing.assert_array_equal(x, y)


def test_two_uses_of_one_extern_share_nothing() -> None:
    def through(name, source):
        return extern((3, 4), [source], copying, name=name)

    out = through("second", through("first", A))
    text = create_prim_func([A, out]).script()
    assert 'T.block("first")' in text
    assert 'T.block("second")' in text


def test_dtypes_and_buffers_can_be_given() -> None:
    ints = te.placeholder((3, 4), "int32", name="ints")
    mine = n.decl_buffer((12,), "int8", "mine")

    def body(ins, outs):
        assert outs == [mine]
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 12) as i:
            y[i] = x[i].astype("int8")
        return ib.get()

    out = extern((12,), [A, ints], body, dtype="int8", out_buffers=mine)
    assert out.dtype == "int8"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: extern((4,), [A], lambda ins, outs: None), "returned NoneType, not a statement"),
        (lambda: extern((4,), [3], copying), "input 0 is no tensor but a int"),
        (lambda: extern((4,), [], copying), "the dtype of its outputs is not known: it has no inputs"),
        (lambda: extern([(4,), (4,)], [A], copying, dtype=["int8"]), "2 outputs, 1 dtypes"),
        (lambda: extern((4,), [A], copying, in_buffers=n.decl_buffer((4,), "int8", "b")), "buffer 'b' .* does not fit"),
        (lambda: extern((4,), [A], lambda ins, outs: n.Evaluate(n.IntImm("int32", 0))), "never writes its output"),
        (lambda: extern((3, 4), [A], lambda ins, outs: copying(outs, ins)), "writes its input|never writes"),
        (lambda: extern((3, 4), [A], lambda ins, outs: copying([FOREIGN], outs)), "uses buffer 'other'"),
        (lambda: extern((4,), [A], lambda *_: call_packed(3)), r"in te.extern 'extern': call_packed: the name of"),
    ],
)
def test_bad_externs_are_refused_at_their_line(make, message: str) -> None:
    with pytest.raises(IRError, match=message) as error:
        make()
    assert __file__ in str(error.value)


FOREIGN = n.decl_buffer((3, 4), "float32", "other")


def test_its_loops_are_not_the_schedules() -> None:
    out = extern((3, 4), [A], copying, name="copy")
    s = create_schedule(out.op)
    assert s[out].leaf_iter_vars == []
    for call in (s[out].compute_inline, lambda: s.cache_write(out, "local"), lambda: s[out].set_scope("local")):
        with pytest.raises(ScheduleError, match="stage 'copy' is not made of loops that a schedule knows"):
            call()


def test_a_producer_cannot_move_into_an_extern() -> None:
    twice = te.compute((3, 4), lambda i, j: A[i, j] * 2, name="twice")
    out = extern((3, 4), [twice], copying, name="copy")
    s = create_schedule(out.op)
    with pytest.raises(ScheduleError, match="compute_at: axis 'i' belongs to another stage"):
        s[twice].compute_at(s[out], twice.op.axis[0])


# -------------------------------------------------------------------------------- the builder


def run(fill, shape=(6,), dtype="float32") -> np.ndarray:
    """The output of an extern of no inputs, whose body `fill(ib, out)` writes."""

    def body(_ins, outs):
        ib = ir_builder.create()
        fill(ib, ib.buffer_ptr(outs[0]))
        return ib.get()

    made = np.zeros(shape, dtype)
    interp.run(create_prim_func([extern(shape, [], body, dtype=dtype)]), made)
    return made


def test_loops_branches_lets_and_temporaries() -> None:
    def fill(ib, out):
        kept = ib.allocate("float32", (2, 3), "kept")
        with ib.for_range(0, 6, "i") as i:
            half = ib.let("half", i // 2)
            with ib.if_scope(ib.likely(i < 4)):
                kept[i] = half.astype("float32")
            with ib.else_scope():
                kept[1, i - 3] = 9.0
        with ib.for_range(0, 6, "j", kind="unroll") as j:
            out[j] = kept[j // 3, j % 3]

    np.testing.assert_array_equal(run(fill), [0, 0, 1, 1, 9, 9])


def test_a_while_loop() -> None:
    def fill(ib, out):
        count = ib.allocate("int32", (1,), "count")
        count[0] = 0
        with ib.while_loop(count[0] < 6):
            out[count[0]] = count[0] * count[0]
            count[0] = count[0] + 1

    np.testing.assert_array_equal(run(fill, dtype="int32"), [0, 1, 4, 9, 16, 25])


def test_loops_begin_anywhere_and_have_a_dtype() -> None:
    ib = ir_builder.create()
    with ib.for_range(2, 5, "i", dtype="int64") as i:
        ib.emit(i)
    stmt = ib.get()
    assert isinstance(stmt, n.For)
    assert (stmt.min.value, stmt.extent.value, stmt.loop_var.dtype) == (2, 3, "int64")


def test_the_builder_refuses_what_makes_no_sense() -> None:
    ib = ir_builder.create()
    x = ib.buffer_ptr(n.decl_buffer((2, 2, 2), "int8", "x"))
    with pytest.raises(IRError, match="'x' has 3 dimensions, indexed with 2"):
        x[0, 0]
    with pytest.raises(IRError, match="a value of dtype float32 is stored to buffer 'x' of int8"):
        x[0, 0, 0] = te.var("f", "float32")
    with pytest.raises(IRError, match="a value of dtype int8 is stored to buffer 'x' of int8 at int8x2"):
        x[0, 0, n.Ramp(0, 1, 2)] = te.var("v", "int8")
    with pytest.raises(IRError, match="else_scope must come right after an if_scope"), ib.else_scope():
        pass
    with pytest.raises(IRError, match="needs a condition, got float32"), ib.if_scope(te.var("f", "float32")):
        pass
    with pytest.raises(IRError, match="no loop kind 'sideways'"), ib.for_range(0, 2, kind="sideways"):
        pass
    with ib.for_range(0, 2), pytest.raises(IRError, match="inside a loop or a branch"):
        ib.get()


def test_vectors_are_stored() -> None:
    def body(ins, outs):
        ib = ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 3, "i") as i:
            b[i, n.Ramp(0, 1, 4)] = a[i, n.Ramp(0, 1, 4)] * n.Broadcast(n.FloatImm("float32", 2.0), 4)
            with ib.if_scope(i):
                b[i, n.Ramp(0, 2, 2)] = n.Broadcast(n.FloatImm("float32", 0.5), 2)
        return ib.get()

    func = create_prim_func([A, extern((3, 4), [A], body)])
    values, out = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((3, 4), "float32")
    interp.run(func, values, out)
    assert out.tolist() == [[0, 2, 4, 6], [0.5, 10, 0.5, 14], [0.5, 18, 0.5, 22]]
