"""The names of series of a benchmark, and of notes of their results."""

from __future__ import annotations

CONFIRMED = "confirmed"
"""What the notes of a result say when it was suspect and measuring again bore it out."""


def kernel_series(model: str, kernel: str) -> str:
    """Return what the series of a kernel of a model is called."""
    return f"{model}:{kernel}"


def model_of(series: str) -> str | None:
    """The model that the series of a kernel belongs to; None for a series that is not of a model's kernel."""
    model, colon, _ = series.partition(":")
    return model if colon and "." in model else None
