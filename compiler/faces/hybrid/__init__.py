"""Tensor operations written as Python functions: the names of Apache TVM's `te.hybrid`."""
