"""The exponent policies by name. Only the standard library is imported: `--help` lists them."""

from __future__ import annotations

from typing import Literal

PolicyName = Literal[
    "auto", "static", "max", "known_range", "stats", "rolling_max", "feedback", "static_history", "worst_case",
    "lookup", "dynamic", "delayed",
]  # fmt: skip
#: What decides on the exponent of a result under each policy, in few words, for `--help`.
POLICIES: dict[PolicyName, str] = {
    "auto": "static if calibrated, else max (default)",
    "static": "calibration samples; costs no time",
    "known_range": "a known largest value (recipe: range)",
    "worst_case": "weights and ranges: no overflow",
    "lookup": "given in the recipe (exponent)",
    "max": "each result's maximum; computed twice",
    "dynamic": "each result, by --flow and --rule",
    "delayed": "the run before, by --rule; costs no time",
    "stats": "mean, deviation so far (recipe: k, window)",
    "static_history": "stats, at first static",
    "rolling_max": "last maxima (recipe: history)",
    "feedback": "counted overflows (recipe: limit)",
}
