"""TensorIR: nodes, expression building, schedules."""


__all__ = [name for name in dir() if not name.startswith("_")]
