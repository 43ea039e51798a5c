"""Faces of the compiler: names of other programs, thin, on graphs and the machine that runs them."""
