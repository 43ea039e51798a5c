"""Kernels of your own: a build with parameters, the space they may take, and a reference to compare with."""
