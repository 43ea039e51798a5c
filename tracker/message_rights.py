"""Who may say what to a tracker that uses keys.

The rights of roles, and the names that each key may use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import get_args

import msgspec
import zmq

from rpc_server.errors import KeyFileError, NotPermitted
from rpc_server.wire.keys import KeyRole, Principal
from rpc_server.wire.tracker_messages import Admin, BoxHello, FromBox, FromClient, Query, RequestDevice

logger = logging.getLogger("tracker")

_BOX_MESSAGES = get_args(FromBox)
_MAX_PEERS = 200_000


class MessageRights:
    """The rights of a message: those of its sender.
    `who` names the holder of the key a message came with; `authorized` gives those of all keys, `groups` the devices
    that each group of clients may ask for."""

    def __init__(
        self,
        who: Callable[[zmq.Frame], Principal | None],
        authorized: Callable[[], Mapping[str, Principal]],
        groups: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._who = who
        self._groups = groups
        self._authorized = authorized
        self._owners: dict[str, Principal] = {}  # by peer name: who used it first

    def permit(self, message: FromBox | FromClient, first: zmq.Frame) -> FromBox | FromClient:
        """The message, with the sender's name and key as they are known here. Raises NotPermitted."""
        principal = self._who(first)
        if principal is None:
            raise NotPermitted("this key is not authorized any more", hint="have it authorized at the tracker")
        match message:
            case Query():
                return message
            case Admin():
                if principal.role is not KeyRole.ADMIN:
                    raise NotPermitted(
                        f"{principal.name} is {_article(principal.role)}; only an admin may do that",
                        hint="on the tracker's machine: tunefarm keys authorize KEY --role admin --name NAME; "
                        "KEY is what `tunefarm keys new` prints where the admin works",
                    )
                return message
            case _ if isinstance(message, _BOX_MESSAGES):
                if principal.role is not KeyRole.BOX:
                    raise NotPermitted(f"{principal.name} is {_article(principal.role)}; only a box lends devices")
            case _:
                if not principal.may_use_devices:
                    raise NotPermitted(f"{principal.name} is {_article(principal.role)}, which may not use devices")
        self._own(message.peer, principal)
        match message:
            case BoxHello():
                if not _is_name_of(message.box, principal):
                    raise NotPermitted(
                        f"the key of box {principal.name!r} does not register as {message.box!r}",
                        hint=f"start it with `tunefarm server --name {principal.name}`",
                    )
                return msgspec.structs.replace(message, public=principal.public)
            case RequestDevice():
                expr = self._held(message.expr, principal)
                return msgspec.structs.replace(message, user=principal.name, public=principal.public, expr=expr)
            case _:
                return message

    def _held(self, expr: str, principal: Principal) -> str:
        """The devices that a client asks for, of those that its group may have."""
        if not principal.group:
            return expr
        allowed = self._groups().get(principal.group)
        if allowed is None:
            hint = f"on the tracker's machine: tunefarm keys group {principal.group} EXPR"
            raise NotPermitted(f"{principal.name} is of group {principal.group}, which has no devices", hint=hint)
        if allowed == "*":
            return expr
        return allowed if expr.strip() in ("", "*") else f"{expr} {allowed}"

    def _own(self, peer: str, principal: Principal) -> None:
        """A peer's random name stands for its leases: nobody else may use it."""
        owner = self._owners.setdefault(peer, principal)
        if owner.public != principal.public:
            raise NotPermitted("this peer name belongs to another key")
        if len(self._owners) > _MAX_PEERS:
            self._owners.pop(next(iter(self._owners)))

    def revoked(self) -> list[tuple[str, str]]:
        """Return peers whose key was revoked or given another role since they were let in.
        Each comes once, with the reason in words. While the list of keys cannot be read, there are none."""
        try:
            authorized = self._authorized()
        except KeyFileError as error:
            logger.error("%s", error)
            return []
        gone = [
            (peer, f"the key of {owner.name} is not authorized any more")
            for peer, owner in self._owners.items()
            if (known := authorized.get(owner.public)) is None or known.role is not owner.role
        ]
        for peer, _ in gone:
            del self._owners[peer]
        return gone


def _is_name_of(box: str, principal: Principal) -> bool:
    """A box's key registers under its own name, and names below it (NAME:PORT, NAME/SLOT)."""
    return box == principal.name or box.startswith((f"{principal.name}:", f"{principal.name}/"))


def _article(role: KeyRole) -> str:
    return f"an {role}" if role is KeyRole.ADMIN else f"a {role}"
