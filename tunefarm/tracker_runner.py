"""The faces' RPC runners with this machine's keys."""

from __future__ import annotations

from rpc_server.wire.keys import KeyRing
from tunefarm import settings
from tuner.devices.fleet import Fleet
from tuner.faces.common.engine import OnTracker


class WithOwnKeys(OnTracker):
    """A runner whose `keys` default to this machine's (the setting `keys`)."""

    def _devices(self) -> Fleet:
        self.keys = self.keys or KeyRing(settings.load().keys_folder)
        return super()._devices()
