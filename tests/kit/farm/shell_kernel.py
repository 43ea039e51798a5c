"""Clients' code that tries things: a kernel that runs a shell, in a session of a server with full isolation."""

import hashlib
import os

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.isolation.probe import find_means
from tests.kit.farm.rpc_kernels import artifact_of

_SHELL = """
declare i32 @system(ptr)
@command = private constant [$size x i8] c"$text"
define void @$name(ptr %a, ptr %b) {
  %r = call i32 @system(ptr @command)
  %f = sitofp i32 %r to float
  store float %f, ptr %b
  ret void
}
"""


def require_full(parent):
    """Skip where the kernel allows no full isolation; in CI that is a failure."""
    means = find_means("each", parent)
    if means.no_namespaces:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have namespaces: {means.no_namespaces}")
        pytest.skip(f"no namespaces here: {means.no_namespaces}")


def shell(remote, command, timeout=60.0):
    """Return the output of a shell command that a client's kernel runs in its executor."""
    data = f"({command}) >answer 2>&1; true".encode() + b"\0"
    text = "".join(f"\\{byte:02X}" for byte in data)
    name = f"{hashlib.sha256(data).hexdigest()[:12]}.tunefarm"
    remote.upload(artifact_of(_SHELL, size=len(data), text=text).to_bytes(), name)
    function = remote.load_module(name)["kernel"]
    a = nd.array(np.zeros(1024, np.float32), remote.cpu())
    remote.call_timeout = timeout
    function(a, a)
    return bytes(remote.download("answer")).decode(errors="replace").strip()
