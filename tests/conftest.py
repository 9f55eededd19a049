"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# A test's time depends on the machine and on what else runs there: speed is measured in `benchmarks/`.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
