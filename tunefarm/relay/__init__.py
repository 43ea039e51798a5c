"""What is left of Relay: programs name a runtime with `relay.backend.Runtime`. Graphs are `tunefarm.relax`."""

from typing import NoReturn

from tunefarm.relay import backend

__all__ = ["backend"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"tunefarm has no Relay, so no relay.{name}; graphs are written with tunefarm.relax")
