"""The operator inventory: tensor definitions of common operators."""

from compiler.topi import *  # noqa: F403
