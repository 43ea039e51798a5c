"""Every TensorIR node under one name, as `from compiler.tir import nodes as n` has them.

There are expressions (`PrimExpr`), statements (`Stmt`), buffers and functions. A node is frozen and compared by
identity; its children sit in tuples; a pass returns the same object when it changed nothing (see
`compiler.ir.visit`). Names and constructor arguments are those of Apache TVM's TensorIR. The expression operators
(`a + b`, `a < b`, ...) live in `compiler.tir.nodes.operators`.

te or a script makes a function of *blocks* (`BlockRealize`/`Block`): computations with their own iteration
variables, reads, writes and reduction init. The function is scheduled, and then lowered. A lowered function has no
blocks, its buffers are one-dimensional, and `Allocate` makes the temporary ones.
"""

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
from compiler.tir.nodes.buffer import Buffer, BufferRegion, BufferStore, MatchBufferRegion, decl_buffer
from compiler.tir.nodes.convert import Broadcast, Cast
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
    BufferLoad,
    Call,
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
from compiler.tir.nodes.func import PrimFunc, prim_funcs
from compiler.tir.nodes.stmt import (
    Allocate,
    AnyStmt,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Allocate", "And", "AnyStmt", "AssertStmt", "AttrStmt", "BinaryOp",
    "Block", "BlockRealize", "Broadcast", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast",
    "CmpOp", "CommReducer", "DeclBuffer", "Div", "Evaluate", "FloatImm", "FloorDiv", "FloorMod", "For", "ForKind",
    "IfThenElse", "IntImm", "IterType", "IterVar", "Let", "LetStmt", "MatchBufferRegion", "Max", "Min", "Mod", "Mul",
    "Not", "NumberOp", "Or", "PrimExpr", "PrimFunc", "ProducerLoad", "Ramp", "Range", "Reduce", "Select", "SeqStmt",
    "Shuffle", "SizeVar", "Stmt", "StringImm", "Sub", "Var", "While", "decl_buffer", "prim_funcs", "same_constant",
]  # fmt: skip
