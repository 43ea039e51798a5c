"""The shared part of every level of the IR: node base, source spans, operators, modules."""
