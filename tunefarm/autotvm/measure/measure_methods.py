"""Builders and runners."""

from rpc_server.client.session import RPCSession
from rpc_server.wire.keys import KeyRing
from tunefarm import settings
from tunefarm.tracker_runner import WithOwnKeys
from tuner.faces.autotvm import measure_methods as _methods
from tuner.faces.autotvm.measure_methods import LocalBuilder, LocalRunner, create_measure_batch, measure_option
from tuner.faces.autotvm.module_loading import BuiltConfig as BuildResult
from tuner.faces.autotvm.module_loading import DefaultModuleLoader, ModuleLoader, default_module_loader, run_through_rpc
from tuner.faces.autotvm.module_loading import request_remote as _request_remote

__all__ = [
    "BuildResult", "DefaultModuleLoader", "LocalBuilder", "LocalRunner", "RPCRunner", "create_measure_batch",
    "default_module_loader", "measure_option", "request_remote", "run_through_rpc",
]  # fmt: skip


class RPCRunner(WithOwnKeys, _methods.RPCRunner):
    __doc__ = _methods.RPCRunner.__doc__

    def loader(self) -> ModuleLoader:
        self.keys = self.keys or KeyRing(settings.load().keys_folder)
        return super().loader()


def request_remote(
    device_key: str, host: str | None = None, port: int | str | None = None, priority: int = 1, timeout: float = 60
) -> RPCSession:
    """Return a session on a device of the tracker at `host`:`port`, for `timeout` seconds.
    It uses this machine's keys."""
    keys = KeyRing(settings.load().keys_folder)
    return _request_remote(device_key, host, port, priority, timeout, keys=keys)
