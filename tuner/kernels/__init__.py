"""Kernels of your own: a build with parameters, its space, and a reference to compare with."""
