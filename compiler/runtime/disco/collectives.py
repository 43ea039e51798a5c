"""Global functions of workers: memory, modules, and operations that all of them take part in."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.core.ndarray import NDArray, empty
from compiler.runtime.core.registry import register_func
from compiler.runtime.disco.messages import DiscoError
from compiler.runtime.disco.worker import Array, Worker, current

REDUCE_OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4}
_RULES: dict[int, Any] = {0: np.add, 1: np.multiply, 2: np.minimum, 3: np.maximum, 4: np.add}


def _first(worker: Worker, in_group: bool) -> int:
    """The worker that gives or takes for all."""
    return worker.index // worker.group_size * worker.group_size if in_group else 0


def _view(data: memoryview, like: Array) -> Array:
    return np.frombuffer(data, like.dtype)


@register_func("runtime.disco.empty", override=True)
def _empty(
    shape: Any, dtype: str, device: Device | None = None, worker0_only: bool = False, in_group: bool = True
) -> NDArray | None:
    worker = current()
    if worker0_only and worker.index != _first(worker, in_group):
        return None
    return empty(tuple(shape), dtype, device or worker.device)


@register_func("runtime.disco.load_vm_module", override=True)
def _load(path: str, device: Device | None = None) -> Any:
    worker = current()
    return worker.home.load(path, device or worker.device)


@register_func("runtime.ModuleGetFunction", override=True)
def _function(module: Any, name: str, query_imports: bool = False) -> Any:
    return module[name]


@register_func("runtime.disco._import_python_module", override=True)
def _import(module_name: str) -> None:
    importlib.import_module(module_name)


@register_func("runtime.disco.worker_id", override=True)
def _worker_id() -> int:
    return current().index


@register_func("runtime.disco.worker_rank", override=True)
def _worker_rank() -> int:
    return current().index


@register_func("runtime.disco.device", override=True)
def _device() -> Device:
    return current().device


@register_func("runtime.disco.allreduce", override=True)
def _allreduce(src: NDArray, op: Any, in_group: bool, dst: NDArray) -> None:
    kind = int(op[0] if isinstance(op, tuple | list) else op)
    own = src.numpy()
    with current().meeting.exchange(own, bool(in_group)) as parts:
        _same("allreduce", own, parts)
        total = functools.reduce(_RULES[kind], [_view(part, own) for part in parts])
        if kind == REDUCE_OPS["avg"]:
            total = (total / len(parts)).astype(own.dtype)
        total = np.array(total, own.dtype).reshape(own.shape)
    dst.copyfrom(total)


@register_func("runtime.disco.allgather", override=True)
def _allgather(src: NDArray, in_group: bool, dst: NDArray) -> None:
    own = src.numpy()
    with current().meeting.exchange(own, bool(in_group)) as parts:
        _same("allgather", own, parts)
        joined = np.concatenate([_view(part, own) for part in parts])
    dst.copyfrom(_fit("allgather", joined, dst))


@register_func("runtime.disco.broadcast_from_worker0", override=True)
def _broadcast(send: NDArray | None, in_group: bool, recv: NDArray) -> None:
    worker = current()
    giver = _first(worker, bool(in_group))
    own = send.numpy() if worker.index == giver and send is not None else None
    with worker.meeting.exchange(own, bool(in_group)) as parts:
        data = np.frombuffer(parts[0], np.uint8).copy()
    recv.copyfrom(_typed("broadcast", data, recv))


@register_func("runtime.disco.scatter_from_worker0", override=True)
def _scatter(send: NDArray | None, in_group: bool, recv: NDArray) -> None:
    worker = current()
    giver = _first(worker, bool(in_group))
    own = send.numpy() if worker.index == giver and send is not None else None
    with worker.meeting.exchange(own, bool(in_group)) as parts:
        data = np.frombuffer(parts[0], np.uint8)
        size, left = divmod(len(data), len(parts))
        if left:
            raise DiscoError(f"scatter: {len(data)} bytes do not divide among {len(parts)} workers")
        mine = data[(worker.index - giver) * size :][:size].copy()
    recv.copyfrom(_typed("scatter", mine, recv))


@register_func("runtime.disco.gather_to_worker0", override=True)
def _gather(send: NDArray, in_group: bool, recv: NDArray | None) -> None:
    worker = current()
    own = send.numpy()
    with worker.meeting.exchange(own, bool(in_group)) as parts:
        _same("gather", own, parts)
        joined = np.concatenate([_view(part, own) for part in parts])
    if worker.index == _first(worker, bool(in_group)):
        if recv is None:
            raise DiscoError("gather: worker 0 has no array to gather to")
        recv.copyfrom(_fit("gather", joined, recv))


def _same(name: str, own: Array, parts: Any) -> None:
    sizes = [len(part) for part in parts]
    if len(set(sizes)) != 1:
        raise DiscoError(f"{name}: the workers' arrays have {sizes} bytes, which differ")


def _fit(name: str, joined: Array, dst: NDArray) -> Array:
    if joined.size != dst.size:
        raise ArgumentError(f"{name}: the result has {joined.size} elements, the array for it {dst.size}")
    return joined.reshape(tuple(dst.shape))


def _typed(name: str, data: Array, recv: NDArray) -> Array:
    if len(data) != recv.nbytes:
        raise ArgumentError(f"{name}: the data has {len(data)} bytes, the array for it {recv.nbytes}")
    return data.view(np.asarray(recv.numpy()).dtype).reshape(tuple(recv.shape))
