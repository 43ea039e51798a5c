"""Kernels in files, loaded on devices: the module loaders of a runner, and timing what they load."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from compiler.errors import TunefarmError
from compiler.runtime.core.fill import random_values
from compiler.runtime.core.ndarray import array
from rpc_server.client.session import RPCSession
from rpc_server.errors import RemoteFileError
from rpc_server.wire.keys import KeyRing
from tracker.client import connect_tracker
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.common.measure_error import MeasureErrorNo


class BuiltConfig(NamedTuple):
    """A kernel in a file.
    `arg_info` has the shape and dtype of each argument, `time_cost` the seconds it took."""

    filename: str | None
    arg_info: tuple[tuple[tuple[int, ...], str], ...]
    error: Exception | None
    time_cost: float


class ModuleLoader(Protocol):
    """Gets a device and loads a kernel there: a context manager of the session and the module.

    `remote_kwargs` are the arguments of `request_remote`.
    """

    def __call__(
        self, remote_kwargs: Mapping[str, Any], build_result: BuiltConfig
    ) -> AbstractContextManager[tuple[Any, Any]]: ...


def request_remote(
    device_key: str, host: str | None = None, port: int | str | None = None, priority: int = 1, timeout: float = 60, *,
    keys: KeyRing | None = None,
) -> RPCSession:  # fmt: skip
    """Return a session on a device that the tracker lends for `device_key`, for at most `timeout` seconds.

    The tracker is at `host`:`port`, by default where TVM_TRACKER_HOST and TVM_TRACKER_PORT say.
    Raises what `TrackerSession.request` raises.
    """
    host = host or os.environ["TVM_TRACKER_HOST"]
    port = port or os.environ["TVM_TRACKER_PORT"]
    tracker = connect_tracker(host, int(port), keys=keys)
    try:
        remote = tracker.request(device_key, priority=priority, session_timeout=timeout)
    except BaseException:
        tracker.close()
        raise
    remote.on_close(tracker.close)
    return remote


class DefaultModuleLoader:
    """Uploads the file and loads it. `pre_load_function(remote, build_result)` is called before."""

    def __init__(self, pre_load_function: Callable[[Any, BuiltConfig], Any] | None = None) -> None:
        self.pre_load_function = pre_load_function
        self.keys: KeyRing | None = None  # the runner's

    @contextmanager
    def __call__(self, remote_kwargs: Mapping[str, Any], build_result: BuiltConfig) -> Iterator[tuple[Any, Any]]:
        assert build_result.filename is not None
        with request_remote(**remote_kwargs, keys=self.keys) as remote:
            if self.pre_load_function is not None:
                self.pre_load_function(remote, build_result)
            remote.upload(build_result.filename)
            name = Path(build_result.filename).name
            try:
                yield remote, remote.load_module(name)
            finally:
                with suppress(RemoteFileError):
                    remote.remove(name)


def default_module_loader(pre_load_function: Callable[[Any, BuiltConfig], Any] | None = None) -> DefaultModuleLoader:
    """Return the loader that a runner uses by itself.
    It calls `pre_load_function(remote, build_result)` first."""
    return DefaultModuleLoader(pre_load_function)


def run_through_rpc(
    measure_input: MeasureInput, build_result: BuiltConfig | MeasureResult, number: int, repeat: int,
    min_repeat_ms: int, cooldown_interval: float, remote_kwargs: Mapping[str, Any], ref_input: Any = None,
    enable_cpu_cache_flush: bool = False, module_loader: ModuleLoader | None = None,
) -> MeasureResult:  # fmt: skip
    """Load a built config on a device and time it there.

    `ref_input` are the arguments as numpy arrays; random ones without. Errors of the device and of the loader are
    results, too.
    """
    if isinstance(build_result, MeasureResult):
        return build_result
    start = time.time()
    loader = module_loader or DefaultModuleLoader()
    costs: tuple[float | str, ...]
    try:
        with loader(dict(remote_kwargs), build_result) as (remote, module):
            device = remote.device(str(measure_input.target.kind), 0)
            timer = module.time_evaluator(
                module.entry_name,
                device,
                number=number,
                repeat=repeat,
                min_repeat_ms=min_repeat_ms,
                f_preproc="cache_flush_cpu_non_first_arg" if enable_cpu_cache_flush else "",
            )
            if ref_input is None:
                random = np.random.default_rng(0)
                ref_input = [random_values(shape, dtype, random) for shape, dtype in build_result.arg_info]
            dtypes = [dtype for _, dtype in build_result.arg_info]
            arguments = [array(value, device, dtype=dtype) for value, dtype in zip(ref_input, dtypes)]
            device.sync()
            costs, error_no = tuple(timer(*arguments).results), MeasureErrorNo.NO_ERROR
    except TunefarmError as error:
        costs, error_no = (error.message,), MeasureErrorNo.RUNTIME_DEVICE
    except Exception as error:  # a loader of the program's own fails as it likes
        costs, error_no = (f"{type(error).__name__}: {error}",), MeasureErrorNo.RUNTIME_DEVICE
    done = time.time()
    time.sleep(cooldown_interval)
    return MeasureResult(costs, error_no, done - start + build_result.time_cost, done)
