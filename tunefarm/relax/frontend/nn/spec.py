"""Specifications of a model's inputs."""

from compiler.frontend.nn.spec import Int, MethodSpec, ModuleSpec, Object, Tensor, Tuple

__all__ = ["Int", "MethodSpec", "ModuleSpec", "Object", "Tensor", "Tuple"]
