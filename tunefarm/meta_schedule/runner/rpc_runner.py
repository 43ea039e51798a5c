"""The runner of devices that a tracker lends, and what stands for functions that it is not given."""

from rpc_server.client.session import RPCSession
from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.hooks import EvaluatorConfig
from tuner.faces.meta_schedule.hooks import alloc_remote as default_alloc_argument
from tuner.faces.meta_schedule.hooks import remove_remote as default_cleanup
from tuner.faces.meta_schedule.hooks import run_remote as default_run_evaluator
from tuner.faces.meta_schedule.hooks import upload_module as default_upload_module
from tuner.faces.meta_schedule.runner import RPCConfig, RPCRunner

__all__ = [
    "EvaluatorConfig", "RPCConfig", "RPCRunner", "default_alloc_argument", "default_cleanup", "default_create_session",
    "default_run_evaluator", "default_upload_module",
]  # fmt: skip


def default_create_session(rpc_config: RPCConfig) -> RPCSession:
    """Lease a device of the config's key."""
    return rpc_config.connect_server()


refuse_other_names(__name__)
