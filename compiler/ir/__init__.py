"""What every level of the IR shares: node base, source spans, operators, modules."""
