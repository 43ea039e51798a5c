"""Names of what trackers are asked. Apache TVM's wire protocol is not spoken here."""

from __future__ import annotations

from enum import IntEnum

from tunefarm.compatibility import refuse_other_names

__all__ = ["RPC_SESS_MASK", "TrackerCode"]

RPC_SESS_MASK = 128
"""The factor between the types of a session's devices and those of this machine, in Apache TVM's numbers."""


class TrackerCode(IntEnum):
    """The questions to a tracker, as Apache TVM numbers them."""

    FAIL = -1
    SUCCESS = 0
    PING = 1
    STOP = 2
    PUT = 3
    REQUEST = 4
    UPDATE_INFO = 5
    SUMMARY = 6
    GET_PENDING_MATCHKEYS = 7


refuse_other_names(__name__)
