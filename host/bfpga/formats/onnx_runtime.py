"""The one door to ONNX Runtime: without its telemetry, which has to be switched off before the import.

From release 1.32 on the import alone writes a device number and a data base of events into the user's cache, for a
host that collects them. Who sets ORT_DISABLE_TELEMETRY decides otherwise.
"""

from __future__ import annotations

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

__all__ = ["onnxruntime"]
