"""Relay's operators, by subject."""

from compiler.faces.relay.op import elementwise, image, nn, pooling, reduction, sparse, transform, unique

__all__ = ["elementwise", "image", "nn", "pooling", "reduction", "sparse", "transform", "unique"]
