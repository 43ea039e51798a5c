"""A session on the server that a file of tests starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.session import RPCSession


@pytest.fixture
def remote(server: Server) -> Iterator[RPCSession]:
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        yield session
