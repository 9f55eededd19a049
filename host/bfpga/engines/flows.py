"""How the operation that precedes a layer finds its exponent (FP 3.4, docs/kernel-positions.md)."""

from __future__ import annotations

from typing import Literal

#: Of layers whose exponent is that of their own results; ``static`` and ``delayed`` (a policy) measure nothing.
Flow = Literal["two_pass", "two_pass_sampled", "keep", "keep_sampled"]
