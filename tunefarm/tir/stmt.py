"""Statements."""

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
from compiler.tir.visit import seq as stmt_seq

__all__ = [
    "Allocate",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "BufferRegion",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "LetStmt",
    "MatchBufferRegion",
    "SeqStmt",
    "Stmt",
    "While",
    "stmt_seq",
]
