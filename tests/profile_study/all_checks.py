"""All checks of profiles, in the order in which they are measured and shown."""

from tests.profile_study import causes, overhead, shares

CHECKS = (*shares.CHECKS, *overhead.CHECKS, *causes.CHECKS)
