

from tunefarm.transform import *  # noqa: F403
