"""Building graphs."""

from compiler.relax.block_builder import BlockBuilder, DataflowScope, FunctionScope, TestingScope

__all__ = ["BlockBuilder", "DataflowScope", "FunctionScope", "TestingScope"]
