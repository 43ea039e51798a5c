"""Statements."""

from compiler.faces.tir_ops import stmt_seq
from compiler.tir.nodes import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
)

__all__ = [
    "Allocate", "AssertStmt", "AttrStmt", "Block", "BlockRealize", "BufferRegion", "BufferStore", "DeclBuffer",
    "Evaluate", "For", "ForKind", "IfThenElse", "LetStmt", "MatchBufferRegion", "SeqStmt", "Stmt", "While", "stmt_seq",
]  # fmt: skip
