"""Values of models on their way to a box and back: whatever is nested comes out as it went in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.runtime.core.ndarray import array
from compiler.runtime.core.values import ShapeTuple
from rpc_server.client.machine import _flat
from rpc_server.errors import HandleError, ProtocolError, RemoteError
from rpc_server.executor.machines import MOST_NESTED, Machines
from rpc_server.executor.memories import Memories
from rpc_server.wire.machine_messages import Action, MemoryRef, TupleOf
from rpc_server.wire.messages import MachineReturned, UseMachine, public_codec

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.lists(st.integers(0, 2**40), max_size=4).map(ShapeTuple),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12)


def machines() -> Machines:
    def nothing(handle: int) -> Any:
        raise AssertionError(handle)

    return Machines(Memories(), nothing)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, ShapeTuple) or isinstance(b, ShapeTuple):
        return isinstance(a, ShapeTuple) and isinstance(b, ShapeTuple) and tuple(a) == tuple(b)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(st.lists(VALUES, max_size=4))
def test_values_come_out_as_they_went_in(values: list[Any]) -> None:
    items = tuple(item for value in values for item in _flat(value))
    request = UseMachine(1, Action.CALL, "main", items)
    sent = public_codec.decode_body(public_codec.encode(request)[1])
    assert isinstance(sent, UseMachine)
    got = machines()._values(sent.args)
    assert same(tuple(got), tuple(values))
    back, _ = machines()._returned("f", tuple(values))
    assert isinstance(back, MachineReturned)
    assert same(machines()._values(back.value)[0], tuple(values))


def test_arrays_are_kept_under_handles_of_their_own() -> None:
    memories = Memories()
    made = Machines(memories, lambda handle: None)  # type: ignore[arg-type,return-value]
    held = array([1.0, 2.0])
    (first,) = made._returned("f", held)[0].value  # type: ignore[union-attr]
    assert isinstance(first, MemoryRef)
    assert first.handle < 0
    assert made._values((first,))[0] is held
    memories.free(first.handle)
    with pytest.raises(HandleError):
        made._values((first,))


def test_what_cannot_be_values_is_refused() -> None:
    for items in ((TupleOf(2), 1), tuple([TupleOf(1)] * (MOST_NESTED + 2))):
        with pytest.raises(ProtocolError):
            machines()._values(items)
    with pytest.raises(RemoteError, match="f returned a object"):
        machines()._returned("f", object())
