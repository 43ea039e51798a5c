"""Where spaces come from."""

from tuner.faces.meta_schedule.space_generator import (
    PostOrderApply,
    PySpaceGenerator,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)

create = SpaceGenerator.create

__all__ = ["PostOrderApply", "PySpaceGenerator", "ScheduleFn", "SpaceGenerator", "SpaceGeneratorUnion", "create"]
