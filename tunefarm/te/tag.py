"""Tags of the stages that a program computes."""

from __future__ import annotations

from compiler.te.tag import TagScope, tag_scope

__all__ = ["TagScope", "tag_scope"]
