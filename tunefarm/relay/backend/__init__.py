"""What a graph is built for."""

from tunefarm.relay.backend import runtime
from tunefarm.relay.backend.runtime import Runtime

__all__ = ["Runtime", "runtime"]
