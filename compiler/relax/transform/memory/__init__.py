"""Memory of graphs: arrays' lifetimes, their places in an arena, in-place results, and what is freed."""
