"""Where spaces come from."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.spaces.space_generator import (
    PostOrderApply,
    PySpaceGenerator,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)

create = SpaceGenerator.create

__all__ = ["PostOrderApply", "PySpaceGenerator", "ScheduleFn", "SpaceGenerator", "SpaceGeneratorUnion", "create"]

refuse_other_names(__name__)
