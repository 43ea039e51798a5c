"""Products of matrices: their order, sums and gathers around them, several as one."""
