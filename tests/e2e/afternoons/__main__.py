"""First afternoons with tunefarm, and what each user sees: `python -m tests.e2e.afternoons [TRIALS]`."""

import sys

from tests.e2e.afternoons import build_job, engineer, lab_owner
from tests.e2e.afternoons.session import afternoon

for user in (engineer, lab_owner, build_job):
    print(f"\n== {(user.__doc__ or '').splitlines()[0]}")
    afternoon(user.spend, int(sys.argv[1]) if len(sys.argv) > 1 else 20)
