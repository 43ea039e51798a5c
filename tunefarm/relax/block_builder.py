"""Building graphs."""

from compiler.relax.block_builder import BlockBuilder
from compiler.relax.block_scopes import DataflowScope, FunctionScope, TestingScope

__all__ = ["BlockBuilder", "DataflowScope", "FunctionScope", "TestingScope"]
