"""Kinds of parameters that several routes take. A number the databases cannot hold is refused as one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from tuner.goals import Goal

LARGEST = 2**62

Id = Annotated[int, Path(ge=0, le=LARGEST)]
"""Which run, trial, config: in the path."""
Number = Annotated[int, Query(ge=1, le=LARGEST)]
"""Which one, in the query."""
Before = Annotated[int | None, Query(ge=1, le=LARGEST, description="`next` of the page before")]
"""The cursor of lists whose newest come first."""
After = Annotated[int, Query(ge=0, le=LARGEST, description="`next` of the page before")]
"""The cursor of lists whose oldest come first."""
Objective = Annotated[Goal, Query(description="what configs are chosen by: `time`, or `energy` (the joules of a call)")]
