"""Tokens that open the REST API."""

from __future__ import annotations

from datetime import datetime

from tuner.records.db.base import StorePart, page_size
from tuner.records.db.types import utcnow
from tuner.records.farm import tokens
from tuner.records.farm.model_farm import Role, Token
from tuner.records.farm.scopes import EVERYTHING, Scopes


class TokenRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def new(
        self, name: str, role: Role, *, created_by: str = "", expires_at: datetime | None = None,
        scopes: Scopes = EVERYTHING,
    ) -> tuple[Token, str]:  # fmt: skip
        """Make a token; returns it with its secret, which is not kept. Raises InvalidRecord."""
        secret = tokens.new_secret()
        digest = tokens.digest_of(secret)
        return self._write(lambda c: tokens.add(c, name, digest, role, created_by, expires_at, scopes)), secret

    def revoke(self, name: str) -> Token:
        """Let a token open nothing from now on. Raises RecordNotFound."""
        return self._write(lambda c: tokens.revoke(c, name))

    def all(self, limit: int = 1000) -> tuple[Token, ...]:
        """All tokens, revoked ones too, oldest first."""
        return self._read(lambda c: tokens.list_all(c, page_size(limit)))

    def find(self, secret: str) -> Token | None:
        """The token with this secret, if it is valid now."""
        digest = tokens.digest_of(secret)
        found = self._read(lambda c: tokens.find(c, digest))
        return found if found is not None and found.valid(utcnow()) else None

    def note_use(self, token_id: int) -> None:
        """Write down that a token is in use; at most once a minute."""
        self._write(lambda c: tokens.note_use(c, token_id))
