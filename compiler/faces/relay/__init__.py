"""Relay: graphs as Apache TVM wrote them before relax.

They are translated to relax, and compiled as such.
"""
