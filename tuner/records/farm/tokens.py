"""Tokens of the web API. The store never sees a token again once it was made: it keeps the sha256.

A token is 32 random bytes, so a plain hash of it is as hard to guess as the token itself.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, or_, select, update

from tuner.records.db.schema_farm import TokenRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import of_row
from tuner.records.farm.model_farm import Role, Token
from tuner.records.farm.scopes import EVERYTHING, Scopes

PREFIX = "tf_"  # so that a token left in a file is recognised as one
_USED_EVERY = timedelta(minutes=1)
_TOKENS = select(*TokenRow.__table__.columns)


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """Return what of a token is stored and compared."""
    return hashlib.sha256(secret.encode()).hexdigest()


def add(
    connection: Connection, name: str, digest: str, role: Role, created_by: str, expires_at: datetime | None,
    scopes: Scopes = EVERYTHING,
) -> Token:  # fmt: skip
    if not name or len(name) > 100:
        raise InvalidRecord("a token's name has 1 to 100 characters")
    if connection.scalar(select(TokenRow.id).where(TokenRow.name == name)) is not None:
        raise InvalidRecord(f"there is a token {name!r} already", hint="names are used once, revoked ones too")
    values: dict[str, Any] = {
        "name": name,
        "digest": digest,
        "role": str(role),
        "created_by": created_by,
        "expires_at": expires_at,
    }
    values["scopes"] = scopes.to_json()
    connection.execute(insert(TokenRow), {**values, "created_at": utcnow(), "revoked_at": None, "used_at": None})
    return _named(connection, name)


def revoke(connection: Connection, name: str) -> Token:
    found = _named(connection, name)
    if found.revoked_at is None:
        connection.execute(update(TokenRow).where(TokenRow.name == name).values(revoked_at=utcnow()))
    return _named(connection, name)


def _named(connection: Connection, name: str) -> Token:
    row = connection.execute(_TOKENS.where(TokenRow.name == name)).first()
    if row is None:
        raise RecordNotFound(f"there is no token {name!r}", hint="list them with `tunefarm token list`")
    return _to_token(row)


def list_all(connection: Connection, limit: int) -> tuple[Token, ...]:
    return tuple(_to_token(row) for row in connection.execute(_TOKENS.order_by(TokenRow.id).limit(limit)))


def find(connection: Connection, digest: str) -> Token | None:
    row = connection.execute(_TOKENS.where(TokenRow.digest == digest)).first()
    return None if row is None else _to_token(row)


def note_use(connection: Connection, token_id: int) -> None:
    now = utcnow()
    stale = or_(TokenRow.used_at.is_(None), TokenRow.used_at < now - _USED_EVERY)
    connection.execute(update(TokenRow).where(TokenRow.id == token_id, stale).values(used_at=now))


def _to_token(row: AnyRow) -> Token:
    return of_row(Token, row, role=Role(row.role), scopes=Scopes.from_json(row.scopes))
