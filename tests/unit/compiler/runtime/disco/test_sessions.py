"""Sessions of several workers: registers, collective operations, errors and deaths."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.core.registry import register_func, remove_global_func
from compiler.runtime.core.values import DataType
from compiler.runtime.disco.messages import DiscoError
from compiler.runtime.disco.session import ProcessSession, Session, ThreadedSession

KINDS: dict[str, Callable[..., Session]] = {"threads": ThreadedSession, "processes": ProcessSession}


@pytest.fixture(scope="module", params=KINDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with KINDS[request.param](4, 2) as made:
        yield made


def _arrays(session: Session, ref: Any) -> list[Any]:
    return [ref.debug_get_from_remote(at).numpy().tolist() for at in range(session.num_workers)]


def _spread(session: Session, values: np.ndarray[Any, Any]) -> Any:
    """An array in every worker, each with values of its own."""
    ref = session.empty(values.shape[1:], str(values.dtype))
    for at, value in enumerate(values):
        ref.debug_copy_from(at, value)
    return ref


def test_arrays_come_and_go(session: Session) -> None:
    assert session.num_workers == 4
    given = np.arange(6, dtype="float32").reshape(2, 3)
    ref = session.copy_to_worker_0(array(given))
    back = empty((2, 3), "float32")
    session.copy_from_worker_0(back, ref)
    np.testing.assert_array_equal(back.numpy(), given)
    session.copy_to_worker_0(given + 1, ref)
    np.testing.assert_array_equal(ref.debug_get_from_remote(0).numpy(), given + 1)
    assert ref.debug_get_from_remote(1) is None  # worker 0 alone has it
    assert _arrays(session, _spread(session, np.arange(4, dtype="int32").reshape(4, 1))) == [[0], [1], [2], [3]]


def test_functions_know_their_worker(session: Session) -> None:
    ids = session.get_global_func("runtime.disco.worker_id")()
    assert [ids.debug_get_from_remote(at) for at in range(4)] == [0, 1, 2, 3]
    session.sync_worker_0()


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "avg"])
def test_allreduce(session: Session, name: str, in_group: bool) -> None:
    rules: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "avg": np.mean}
    values = np.random.default_rng(0).random((4, 2, 3), dtype="float32")
    src = _spread(session, values)
    dst = session.allreduce(src, session.empty((2, 3), "float32"), name, in_group)
    for at in range(4):
        members = values[at // 2 * 2 :][:2] if in_group else values
        np.testing.assert_allclose(dst.debug_get_from_remote(at).numpy(), rules[name](members, axis=0), rtol=1e-6)


@pytest.mark.parametrize("in_group", [True, False])
def test_parts_are_shared_out_and_joined(session: Session, in_group: bool) -> None:
    values = np.arange(8, dtype="int64").reshape(4, 2)
    group = 2 if in_group else 4
    src = _spread(session, values)
    gathered = session.allgather(src, session.empty((group, 2), "int64"), in_group)
    firsts = [at // group * group for at in range(4)]
    assert _arrays(session, gathered) == [values[first : first + group].tolist() for first in firsts]
    sent = _spread(session, values)
    assert _arrays(session, session.broadcast_from_worker0(sent, session.empty((2,), "int64"), in_group)) == [
        values[first].tolist() for first in firsts
    ]
    parts = session.empty((2 // group or 1,) if in_group else (2,), "int64")
    whole = _spread(session, np.arange(32, dtype="int64").reshape(4, 8)) if not in_group else sent
    session.scatter_from_worker0(whole, parts, in_group)
    source = values if in_group else np.arange(32, dtype="int64").reshape(4, 8)
    size = source.shape[1] // group
    assert _arrays(session, parts) == [
        source[first][(at - first) * size :][:size].tolist() for at, first in enumerate(firsts)
    ]
    joined = session.empty((group * 2,), "int64", worker0_only=True, in_group=in_group)
    session.gather_to_worker0(src, joined, in_group)
    assert joined.debug_get_from_remote(0).numpy().tolist() == values[:group].reshape(-1).tolist()


def test_an_array_is_scattered_and_broadcast(session: Session) -> None:
    given = np.arange(12, dtype="float32").reshape(4, 3)
    assert _arrays(session, session.scatter(given, in_group=False)) == given.tolist()
    assert _arrays(session, session.broadcast(given[1], in_group=False)) == [given[1].tolist()] * 4
    with pytest.raises(ArgumentError, match="3 parts, for 4 workers"):
        session.scatter(given[:3])


def test_errors_name_the_worker_and_are_over_then(session: Session) -> None:
    missing = session.get_global_func("no such function")
    missing(1)
    with pytest.raises(DiscoError, match=r"worker 2: .*no such function"):
        session.sync_worker(2)
    session.sync_all()
    ref = session.empty((2,), "float32")
    session.allgather(ref, session.empty((3,), "float32"))
    with pytest.raises(DiscoError, match="elements"):
        session.sync_worker_0()
    short = session.empty((1,), "float32", worker0_only=True, in_group=False)  # the others hold None there
    session.allreduce(short, session.empty((1,), "float32"), in_group=False)
    with pytest.raises(DiscoError, match=r"worker 0: worker \d failed: AttributeError"):
        session.sync_worker_0()
    assert _arrays(session, session.broadcast(np.ones(1, "float32"), in_group=False)) == [[1.0]] * 4
    with pytest.raises(ArgumentError, match="cannot be sent"):
        missing(array(np.zeros(1)))
    with pytest.raises(ArgumentError, match="no reduction"):
        session.allreduce(ref, ref, "median")
    with pytest.raises(ArgumentError, match="none of them"):
        ref.debug_get_from_remote(9)


def test_functions_of_threads_get_what_is_sent() -> None:
    seen: list[Any] = []
    register_func("test.disco.see", lambda *args: seen.append(args))
    try:
        with ThreadedSession(1) as session:
            ref = session.empty((2,), "int8")
            session.get_global_func("test.disco.see")(1, 2.5, "text", DataType("int8"), cpu(), (3, 4), None, ref)
            session.sync_worker_0()
    finally:
        remove_global_func("test.disco.see")
    ((number, half, text, dtype, device, shape, nothing, held),) = seen
    assert (number, half, text, dtype, device, shape, nothing) == (1, 2.5, "text", "int8", cpu(), (3, 4), None)
    assert held.shape == (2,)
    with pytest.raises(DiscoError, match="shut down"):
        session.sync_worker_0()


def _reduce(session: Session, src: Any) -> None:
    session.allreduce(src, session.empty((4,), "float32"))
    session.sync_worker_0()


def test_a_dead_worker_is_an_error_that_names_it() -> None:
    with ProcessSession(3) as session:
        src = session.empty((4,), "float32")
        session.sync_all()
        victim = session.processes.processes[1]
        os.kill(victim.pid, signal.SIGKILL)
        named = rf"worker 1 \(process {victim.pid}\) was killed by signal 9"
        with pytest.raises(DiscoError, match=named):
            _reduce(session, src)
        with pytest.raises(DiscoError, match=named):
            session.sync_worker(1)
