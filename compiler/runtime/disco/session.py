"""Sessions: the controller's side of several workers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.disco import collectives, messages
from compiler.runtime.disco.processes import Processes
from compiler.runtime.disco.threads import Threads
from compiler.runtime.disco.worker import ThisMachine

MOST_WORKERS = 256


class Workers(Protocol):
    """Workers that are told things in order."""

    def send(self, index: int, instruction: messages.Instruction) -> None:
        """Tell a worker something. Raises DiscoError where it is gone."""

    def answer(self, index: int) -> messages.Answer:
        """A worker's next answer. Raises DiscoError where it is gone."""

    def close(self) -> None:
        """End them."""


class DRef:
    """A value that every worker of a session holds under one number."""

    def __init__(self, session: Session, register: int) -> None:
        self.session = session
        self.register = register

    def __del__(self) -> None:
        self.session._forget(self.register)

    def debug_get_from_remote(self, worker_id: int) -> Any:
        """Return what one worker holds: an array, a number or text.
        Raises DiscoError for what went wrong there."""
        return self.session._get(worker_id, self.register)

    def debug_copy_from(self, worker_id: int, value: Any) -> None:
        """Write an array into the one that a worker holds."""
        self.session._put(worker_id, self.register, value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.register} of {self.session}>"


class DPackedFunc(DRef):
    """A function that every worker holds."""

    def __call__(self, *args: Any) -> DRef:
        """Call it in every worker.
        Nothing is waited for; `sync_worker_0` or fetching a result raises what fails."""
        return self.session.call_packed(self, *args)


class DModule(DRef):
    """A module that every worker holds."""

    def __getitem__(self, name: str) -> DPackedFunc:
        session = self.session
        return DPackedFunc(session, session._call(session._cached("runtime.ModuleGetFunction"), self, name, False))


class Session:
    """Workers that all execute the same instructions, each with its own part of the data."""

    def __init__(self, workers: Workers, num_workers: int, num_groups: int) -> None:
        self._workers = workers
        self._num_workers = num_workers
        self.num_groups = num_groups
        self._registers = itertools.count(1)
        self._free: list[int] = []
        self._cache: dict[str, DPackedFunc] = {}
        self._open = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._num_workers} workers>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return self._num_workers

    # ---------------------------------------------------------------------------- telling

    def _tell(self, instruction: messages.Instruction) -> None:
        self._check_open()
        if self._free:
            done, self._free = tuple(self._free), []
            for index in range(self._num_workers):
                self._workers.send(index, messages.Forget(done))
        for index in range(self._num_workers):
            self._workers.send(index, instruction)

    def _check_open(self) -> None:
        if not self._open:
            raise messages.DiscoError("the session was shut down")

    def _forget(self, register: int) -> None:
        self._free.append(register)

    def _ask(self, worker_id: int, instruction: messages.Instruction) -> messages.Value:
        self._check_open()
        if not 0 <= worker_id < self._num_workers:
            raise ArgumentError(f"there are {self._num_workers} workers, counted from 0; {worker_id} is none of them")
        self._workers.send(worker_id, instruction)
        answer = self._workers.answer(worker_id)
        if isinstance(answer, messages.Failed):
            self._recover(worker_id)
            raise messages.DiscoError(f"worker {worker_id}: {answer.error}")
        assert isinstance(answer, messages.Value)
        return answer

    def _recover(self, failed: int) -> None:
        """Discard the errors of the other workers, which the first one caused, so that all go on."""
        for index in range(self._num_workers):
            if index != failed:
                self._workers.send(index, messages.Sync())
                self._workers.answer(index)

    def _get(self, worker_id: int, register: int) -> Any:
        found = self._ask(worker_id, messages.Get(register))
        if found.shape is None:
            return messages.plain(found.plain)
        return array(np.frombuffer(bytearray(found.data), found.dtype).reshape(found.shape))

    def _put(self, worker_id: int, register: int, value: Any) -> None:
        self._check_open()
        data = np.ascontiguousarray(value.numpy() if isinstance(value, NDArray) else value)
        self._workers.send(worker_id, messages.Put(register, tuple(np.shape(value)), str(data.dtype), data.tobytes()))

    # -------------------------------------------------------------------------- functions

    def get_global_func(self, name: str) -> DPackedFunc:
        """A function that is registered in the workers under that name."""
        register = next(self._registers)
        self._tell(messages.Find(register, name))
        return DPackedFunc(self, register)

    def _cached(self, name: str) -> DPackedFunc:
        if name not in self._cache:
            self._cache[name] = self.get_global_func(name)
        return self._cache[name]

    def call_packed(self, func: DRef, *args: Any) -> DRef:
        """Call a function in every worker with numbers, text, shapes, devices, and what workers hold."""
        return DRef(self, self._call(func, *args))

    def _call(self, func: DRef, *args: Any) -> int:
        sent = tuple(messages.argument(value, self._register) for value in args)
        register = next(self._registers)
        self._tell(messages.Invocation(register, func.register, sent))
        return register

    def _register(self, value: Any) -> int | None:
        if not isinstance(value, DRef):
            return None
        if value.session is not self:
            raise ArgumentError("this belongs to another session")
        return value.register

    def import_python_module(self, module_name: str) -> None:
        """Import a Python module in every worker, such as one that registers functions."""
        self._cached("runtime.disco._import_python_module")(module_name)

    def load_vm_module(self, path: str, device: Device | None = None) -> DModule:
        """Load an executable from a file in every worker, to run on `device`, else on the worker's own."""
        return DModule(self, self._call(self._cached("runtime.disco.load_vm_module"), str(path), device))

    # ------------------------------------------------------------------------------ arrays

    def empty(
        self, shape: Sequence[int], dtype: str, device: Device | None = None, worker0_only: bool = False,
        in_group: bool = True,
    ) -> DRef:  # fmt: skip
        """An array in every worker; with `worker0_only`, in the first one, of each group or of all."""
        return self._cached("runtime.disco.empty")(tuple(shape), str(dtype), device, worker0_only, in_group)

    def copy_to_worker_0(self, host_array: Any, remote_array: DRef | None = None) -> DRef:
        """Copy an array to worker 0: into the one that it holds, or into a new one."""
        kind = str(host_array.dtype)
        held = self.empty(host_array.shape, kind, None, True) if remote_array is None else remote_array
        self._put(0, held.register, host_array)
        return held

    def copy_from_worker_0(self, host_array: NDArray, remote_array: DRef) -> None:
        """Copy what worker 0 holds into `host_array`."""
        host_array.copyfrom(self._get(0, remote_array.register))

    # -------------------------------------------------------------------------- collectives

    def init_ccl(self, ccl: str, *device_ids: int) -> None:
        """Accepted for compatibility with TVM: workers exchange data through memory, without a library."""
        if ccl not in ("nccl", "rccl", "mpi", "shm"):
            raise ArgumentError(f"there is no communication library {ccl!r}")

    def broadcast(self, src: Any, dst: DRef | None = None, in_group: bool = True) -> DRef:
        """Give an array to every worker."""
        held = self.empty(src.shape, str(src.dtype)) if dst is None else dst
        return self.broadcast_from_worker0(self.copy_to_worker_0(src), held, in_group)

    def broadcast_from_worker0(self, src: DRef, dst: DRef, in_group: bool = True) -> DRef:
        """Give what worker 0 holds to every worker."""
        self._cached("runtime.disco.broadcast_from_worker0")(src, in_group, dst)
        return dst

    def scatter(self, src: Any, dst: DRef | None = None, in_group: bool = True) -> DRef:
        """Give each worker one of the array's parts along its first axis."""
        if src.shape[0] != self._num_workers:
            raise ArgumentError(f"the first axis has {src.shape[0]} parts, for {self._num_workers} workers")
        held = self.empty(src.shape[1:], str(src.dtype)) if dst is None else dst
        self.scatter_from_worker0(self.copy_to_worker_0(src), held, in_group)
        return held

    def scatter_from_worker0(self, from_array: DRef, to_array: DRef, in_group: bool = True) -> None:
        """Give each worker a part of what worker 0 holds."""
        self._cached("runtime.disco.scatter_from_worker0")(from_array, in_group, to_array)

    def gather_to_worker0(self, from_array: DRef, to_array: DRef, in_group: bool = True) -> None:
        """Have worker 0 hold the workers' arrays one behind the other."""
        self._cached("runtime.disco.gather_to_worker0")(from_array, in_group, to_array)

    def allreduce(self, src: DRef, dst: DRef, op: str = "sum", in_group: bool = True) -> DRef:
        """Have every worker hold the sum, prod, min, max or avg of the workers' arrays."""
        if op not in collectives.REDUCE_OPS:
            raise ArgumentError(f"there is no reduction {op!r}", hint=f"there are: {', '.join(collectives.REDUCE_OPS)}")
        self._cached("runtime.disco.allreduce")(src, (collectives.REDUCE_OPS[op],), in_group, dst)
        return dst

    def allgather(self, src: DRef, dst: DRef, in_group: bool = True) -> DRef:
        """Have every worker hold the workers' arrays one behind the other."""
        self._cached("runtime.disco.allgather")(src, in_group, dst)
        return dst

    # ------------------------------------------------------------------------------ waiting

    def _sync_worker(self, worker_id: int) -> None:
        """Wait until a worker has done all it was told.
        Raises DiscoError, naming it, for what went wrong there."""
        self._ask(worker_id, messages.Sync())

    sync_worker = _sync_worker

    def sync_worker_0(self) -> None:
        """Wait until worker 0 has done all it was told."""
        self._sync_worker(0)

    def _sync_all(self) -> None:
        """Wait until every worker has done all it was told."""
        for index in range(self._num_workers):
            self._sync_worker(index)

    sync_all = _sync_all

    def shutdown(self) -> None:
        """End the workers."""
        if self._open:
            self._open = False
            self._cache.clear()
            self._workers.close()


class ThreadedSession(Session):
    """A session whose workers are threads of this process.
    `devices`: one for each; this machine's CPU by default."""

    def __init__(self, num_workers: int, num_groups: int = 1, devices: Sequence[Device] | None = None) -> None:
        given = [cpu()] * num_workers if devices is None else list(devices)
        check_workers(num_workers, num_groups)
        if len(given) != num_workers:
            raise ArgumentError(f"{len(given)} devices for {num_workers} workers")
        here = ThisMachine()
        super().__init__(
            Threads(num_workers, num_groups, [(device, here) for device in given]), num_workers, num_groups
        )


class ProcessSession(Session):
    """A session whose workers are processes. They exchange data through shared memory.

    If a worker dies, the next request raises an error that names it. `entrypoint` is ignored; it is accepted for
    compatibility with TVM.
    """

    def __init__(self, num_workers: int, num_groups: int = 1, entrypoint: str = "tunefarm.exec.disco_worker") -> None:
        check_workers(num_workers, num_groups)
        self.processes = Processes(num_workers, num_groups)
        super().__init__(self.processes, num_workers, num_groups)


def check_workers(num_workers: int, num_groups: int) -> None:
    """Raise ArgumentError for workers that no session can have."""
    if not 1 <= num_workers <= MOST_WORKERS or num_groups < 1 or num_workers % num_groups:
        raise ArgumentError(
            f"{num_workers} workers in {num_groups} groups",
            hint=f"1 to {MOST_WORKERS} workers, in groups of equal size",
        )
