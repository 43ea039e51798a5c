"""Decisions of sample_compute_location that name no loop. compute_at recognises them by identity."""

from __future__ import annotations

from compiler.tir import nodes as n

ROOT_LOCATION = n.Var("root_location")  # the block stays where it stands
INLINE_LOCATION = n.Var("inline_location")  # the block is inlined
