"""Every TensorIR node under one name, as `from compiler.tir import nodes as n` has them.

Expressions (`PrimExpr`), statements (`Stmt`), buffers and functions. A node is frozen and compared by
identity; its children sit in tuples; a pass returns the same object when it changed nothing (see
`compiler.tir.visit`). Names and constructor arguments follow the field (Apache TVM's TensorIR).
The expression operators (`a + b`, `a < b`, ...) live in `compiler.tir.operators`.

Life of a function: made by te or a script with *blocks* (`BlockRealize`/`Block`: a computation
with its own iteration variables, reads, writes and reduction init); scheduled; then lowered, after which
no blocks are left, buffers are one-dimensional and `Allocate` makes the temporary ones.
"""

from compiler.tir import operators
from compiler.tir.nodes.axis import (
    FloatImm,
    ForKind,
    IntImm,
    IterType,
    IterVar,
    Range,
    SizeVar,
    StringImm,
    Var,
    same_constant,
)
from compiler.tir.nodes.base import PrimExpr, Stmt
from compiler.tir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, decl_buffer
from compiler.tir.nodes.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    CommReducer,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    NumberOp,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Sub,
)
from compiler.tir.nodes.func import PrimFunc
from compiler.tir.nodes.stmt import (
    Allocate,
    AnyStmt,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "Allocate",
    "And",
    "AnyStmt",
    "AssertStmt",
    "AttrStmt",
    "BinaryOp",
    "Block",
    "BlockRealize",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "BufferStore",
    "Call",
    "Cast",
    "CmpOp",
    "CommReducer",
    "DeclBuffer",
    "Div",
    "Evaluate",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "For",
    "ForKind",
    "IfThenElse",
    "IntImm",
    "IterType",
    "IterVar",
    "Let",
    "LetStmt",
    "MatchBufferRegion",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "NumberOp",
    "Or",
    "PrimExpr",
    "PrimFunc",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "SeqStmt",
    "Shuffle",
    "SizeVar",
    "Stmt",
    "StringImm",
    "Sub",
    "Var",
    "While",
    "decl_buffer",
    "same_constant",
]

from compiler.tir import ops as _ops
from compiler.tir.intrin import intrin as _intrin

operators.install(_ops, _intrin)
