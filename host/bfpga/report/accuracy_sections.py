"""Parts of a report's page about numbers: accuracy, and noise and saturation of every layer."""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.report import words
from bfpga.report.accuracy import CONFIDENCE, Accuracy, Share
from bfpga.report.charts import accuracy as charts
from bfpga.report.model import Report
from bfpga.report.page import MEASURED, Figure, Section, Table


def accuracy_section(report: Report) -> Section | None:
    """Accuracy against the reference."""
    accuracy = report.accuracy
    named = [("accelerator", accuracy.correct), (accuracy.reference, accuracy.reference_correct)]
    shares = [(name, share) for name, share in named if share is not None]
    if accuracy.agreement is not None:
        shares.append((f"same as {accuracy.reference}", accuracy.agreement))
    if not shares:
        return None
    figures = [
        Figure(
            "accuracy",
            f"Share of samples, with {CONFIDENCE:.0%} intervals",
            MEASURED,
            charts.interval_chart([name for name, _ in shares], [share for _, share in shares]),
            "Wilson intervals: the shares of all such data that these samples allow for.",
            wide=accuracy.confusion is None,
            tables=accuracy_tables(accuracy, shares),
        ),
    ]
    if accuracy.confusion is not None:
        figures.append(
            Figure(
                "confusion",
                "Confusion",
                MEASURED,
                charts.confusion_chart(accuracy),
                "Rows are labels; solid by the share of the label. Blue is right.",
                wide=False,
            )
        )
    lead = f"Largest output against the label, on {words.count(accuracy.samples)} samples."
    if accuracy.cosine is not None:
        lead += f" Mean cosine between outputs of the accelerator and of {accuracy.reference}: {accuracy.cosine:.6f}."
    remarks = []
    if report.calibration.origin == "judged samples":
        remarks.append(
            f"Calibrated on the first {report.calibration.samples} of the samples that are judged here: accuracy on "
            "other data may be lower. `--calibration` gives samples of their own."
        )
    return Section("accuracy", "Accuracy", lead, figures, [], remarks)


def accuracy_tables(accuracy: Accuracy, shares: Sequence[tuple[str, Share]]) -> list[Table]:
    """The shares as numbers, and who is right where the reference was judged too."""
    rows = [
        (
            name,
            words.points(share.value),
            words.interval(share),
            f"{words.count(share.hits)} of {words.count(share.of)}",
        )
        for name, share in shares
    ]
    tables = [Table("Shares", MEASURED, ("what", "share", "95 % interval", "samples"), rows, frozenset({1, 2, 3}))]
    if accuracy.changes is not None:
        found = accuracy.changes
        counts = (found.both, found.gained, found.lost, found.neither)
        headings = ("both", "the accelerator alone", f"{accuracy.reference} alone", "none")
        row = tuple(map(words.count, counts))
        tables.append(Table("Who is right", MEASURED, headings, [row], frozenset(range(4))))
    return tables


def layers_section(report: Report) -> Section | None:
    """Noise and saturation, layer by layer."""
    noisy = [layer for layer in report.layers if layer.sqnr_db is not None]
    counted = [layer for layer in report.layers if layer.saturated_values is not None]
    if not noisy and not counted:
        return None
    figures = []
    if noisy:
        figures.append(
            Figure(
                "sqnr",
                "Signal to quantization noise",
                MEASURED,
                charts.sqnr_chart(noisy),
                "Each layer's result against float, in dB; 6 dB are one bit.",
                wide=not counted,
            )
        )
    traced = report.traced or report.samples
    if counted:
        figures.append(
            Figure(
                "saturation",
                "Saturated values",
                MEASURED,
                charts.saturation_chart(counted, traced),
                "Values beyond the largest number of their layer.",
                wide=not noisy,
            )
        )
    harmful = [layer.label for layer in counted if layer.saturates_too_much]
    remarks = []
    if harmful:
        remarks.append(
            f"{', '.join(harmful)}: more values saturate than the format means to. Calibrate with more "
            "samples, or let exponents follow the data (`--recipe adaptive`)."
        )
    return Section(
        "layers", "Numbers, layer by layer", f"On {words.count(traced)} samples, spread over all.", figures, [], remarks
    )
