"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Most kernels run for milliseconds, and the compiler takes three times as long for what makes them faster.
# From an empty cache -Og saves a tenth of -O1's time in the rooms that compile the most kernels.
# test_csim_device.py has a kernel with the flags that users get.
os.environ.setdefault("BFPGA_CXXFLAGS", "-Og")

# Tests that import ONNX Runtime themselves, before the package does, leave no telemetry behind either.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# A test's time depends on the machine and on what else runs there: speed is measured in `benchmarks/`.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
