"""A client that knows the digest of another's upload gets nothing by it."""

from __future__ import annotations

import pytest

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.connection import Connection
from rpc_server.machine.blobs import blob_digest
from rpc_server.wire import messages
from rpc_server.wire.codec import Address


def test_blobs_of_one_client_are_not_anothers():
    secret = b"what ann sent" * 100
    digest = blob_digest(secret)
    with Server(port=0, silent=True, sessions=2, warm=2) as server:
        ann = open_session("127.0.0.1", server.port, wait_s=60)
        ann.upload(secret, "mine")
        eve = Connection("127.0.0.1", server.port)
        eve.request(messages.OpenSession("eve", wait_s=60.0), timeout_s=60)
        assert eve.request(messages.HasBlobs((digest,))).body == messages.BlobsMissing((digest,))
        put = messages.PutFile("stolen", digest, len(secret))
        assert eve.request(put, address=Address.EXECUTOR).body == messages.Need((digest,))
        assert eve.request(messages.PutBlob(digest, len(secret), 0), (secret[:1],)).body == messages.BlobStored(
            digest, False
        )
        eve.request(messages.PutBlob(digest, len(secret), 0), (secret,))  # who has it, may have it
        eve.request(put, address=Address.EXECUTOR)
        read = eve.request(messages.ReadFile("stolen", 0, 5000), address=Address.EXECUTOR)
        assert isinstance(read.body, messages.Data)
        assert bytes(read.buffers[0]) == secret
        eve.close()
        ann.close()


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_uploads_still_work_in_the_next_session(size):
    data = bytes(size)
    with Server(port=0, silent=True) as server:
        for _ in range(2):
            with open_session("127.0.0.1", server.port, wait_s=60) as session:
                session.upload(data, "f")
                assert bytes(session.download("f")) == data
