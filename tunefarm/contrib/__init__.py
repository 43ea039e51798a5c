"""Help around the compiler: linkers."""
