"""What `run` and `evaluate` say of values beyond the largest number of their layer, and of what calibrated it."""

from __future__ import annotations

from typing import Any

from bfpga.api.jobs import JUDGED_SAMPLES, Job
from bfpga.cli.output import say


def saturation_cell(row: dict[str, Any]) -> str:
    """`12 / 34`: samples and values."""
    if "saturated_samples" not in row:
        return ""
    return f"{row['saturated_samples']:,} / {row['saturated_values']:,}"


def warn_saturation(content: dict[str, Any]) -> None:
    """One line for the layers that saturate too much, with what helps.

    Inputs are counted on all samples, layers perhaps on fewer.
    """
    for row in content["inputs"]:
        samples, values = f"{row['saturated_samples']:,} of {row['counted_samples']:,}", row["saturated_values"]
        say(f"input {row['name']}: {values:,} values of {samples} samples saturate")
    found = [row for row in (*content["inputs"], *content["layers"]) if row.get("saturation_warning")]
    if not found:
        return
    worst = max(found, key=lambda row: row["saturated_samples"] / row["counted_samples"])
    others = f" (and {len(found) - 1} more layers)" if len(found) > 1 else ""
    say(
        f"warning: {worst['name']}{others} saturates in {worst['saturated_samples']} of {worst['counted_samples']} "
        "samples: their values exceed what calibration expected. Calibrate with more samples (--calibration), or let "
        "the exponents follow the data (--policy dynamic, or --recipe adaptive)"
    )


def print_calibration(job: Job) -> None:
    """Say when the judged samples calibrated too: accuracy on others may be lower."""
    if job.calibrated_on == JUDGED_SAMPLES:
        say(
            f"calibrated on the first {job.calibration_samples} samples of those judged here, so accuracy on other "
            "data may be lower; --calibration gives samples of their own"
        )
