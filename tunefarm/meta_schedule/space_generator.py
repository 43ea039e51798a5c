"""Where spaces come from."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.spaces.space_generator import (
    PostOrderApply,
    PySpaceGenerator,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)

create = SpaceGenerator.create

__all__ = ["PostOrderApply", "PySpaceGenerator", "ScheduleFn", "SpaceGenerator", "SpaceGeneratorUnion", "create"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
