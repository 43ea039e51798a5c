"""Functions that tests call on servers, and in sessions without a network.

Importing this module registers them.
"""

from __future__ import annotations

from rpc_server.executor import example_functions as _  # noqa: F401  (registers those that a server has)

__all__: list[str] = []
