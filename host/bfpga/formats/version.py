"""The version of the package; here, because pages and tables name it and must not import all that is offered."""

from __future__ import annotations

VERSION = "0.2.0"
