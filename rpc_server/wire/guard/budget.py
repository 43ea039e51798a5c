"""The limits on what connections may cost a service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of connections, in bytes.
    A *stranger* is a connection that has not yet sent a valid message.

    `unfinished`: what a connection may have sent of an incomplete message. `credit`: what the kernel accepts from it
    beyond the messages that were read, complete or not; `stranger_bytes`: both of these for a stranger. An honest
    peer that sends more than its credit before the service reads it is slowed down, by some tenths of a second.
    `unread`: answers it has not taken. `per_key` counts connections of one key, `per_address` those of an address
    that have shown none. `errors`: invalid messages in a row. `strangers_total`: `unfinished_total` of strangers.
    `growth`: how much the process may grow by incomplete messages of all connections. `burst`: connections that an
    address may open at once; `rate`: further ones a second. `first_words_s`: how long a new connection has to send a
    valid message before the kernel limits what it accepts, because telling the kernel interrupts every core. Whoever
    grants it must poll until `due`.
    """

    connections: int = 4096
    per_key: int = 256
    per_address: int = 1024
    strangers: int = 128
    silent_s: float = 10.0
    unfinished: int = 6 << 20
    credit: int = 10 << 20
    stranger_bytes: int = 256 << 10
    strangers_total: int = 16 << 20
    unfinished_total: int = 64 << 20
    growth: int = 256 << 20
    unread: int = 64 << 20
    unread_total: int = 256 << 20
    errors: int = 64
    burst: int = 2048
    rate: float = 50.0
    first_words_s: float = 0.0
