"""Faces of the compiler: thin layers with other programs' names.

They stand over graphs and the machine that runs them.
"""
