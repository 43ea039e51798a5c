"""Places that are no loop, which sample_compute_location may decide on: compute_at knows them by identity."""

from __future__ import annotations

from compiler.tir import nodes as n

ROOT_LOCATION = n.Var("root_location")  # the block stays where it stands
INLINE_LOCATION = n.Var("inline_location")  # the block is inlined
