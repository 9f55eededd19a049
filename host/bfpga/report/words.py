"""Numbers in the words of a page."""

from __future__ import annotations

from bfpga.report.accuracy import Share


def count(value: float) -> str:
    """`12,345`."""
    return f"{value:,.0f}"


def points(share: float, digits: int = 2) -> str:
    """A share in percent: `12.34 %`."""
    return f"{100 * share:.{digits}f} %"


def interval(share: Share) -> str:
    """`85.2 to 87.1 %`."""
    low, high = share.interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def seconds(value: float) -> str:
    """`1.23 ms`, `45.6 µs`, `2.00 s`."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1 or unit == "µs":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError("the last unit takes everything")


def joules(value: float) -> str:
    """`1.23 mJ`."""
    for factor, unit in ((1.0, "J"), (1e3, "mJ"), (1e6, "µJ")):
        if value * factor >= 1 or unit == "µJ":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError("the last unit takes everything")


def rate(each_second: float | None) -> str:
    """Images a second; `-` of nothing."""
    if not each_second:
        return "-"
    return f"{each_second:,.0f}" if each_second >= 100 else f"{each_second:.3g}"


def octets(value: int) -> str:
    """`1.4 MB`."""
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value} bytes"


def decibel(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def digest(text: str) -> str:
    """The first characters of a digest, enough to distinguish files."""
    return text[:16]
