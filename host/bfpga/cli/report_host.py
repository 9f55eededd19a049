"""What the commands print of the host: its share of the work, its time here and on the board, the whole latency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.cli.output import say, table
from bfpga.report.model import HostWork, host_work

#: No figure for it: no board has been measured (docs/status.md), and a virtual board's time is that of a PC.
NO_DRIVER = "not in these times: what the driver takes for each start, which no board has measured"


def print_host(accelerator: Accelerator, content: dict[str, Any]) -> None:
    """The host's part of ``host_content``, throughput and latency with it, and what no time here holds."""
    if content["host_nodes"]:
        _print_work(accelerator, content)
    if "stream_cores" in content:
        _print_cores(accelerator, content)
    if content["driver_board_seconds"]:
        _print_driver(content)
    say(NO_DRIVER)


def _print_driver(content: dict[str, Any]) -> None:
    """What the driver takes in a long run, in which it works beside the kernel."""
    here = f"{1e6 * content['driver_seconds']:.0f} us on {content['driver_cpu']}"
    board = f"{1e6 * content['driver_board_seconds']:.0f} us a sample of a long run on one {content['host_board_cpu']}"
    most = f"{rate(content['driver_samples_per_second'])} samples/s at most"
    say(f"driver: {board}, {most} (estimated from {here})")


def _print_operators(content: dict[str, Any]) -> None:
    """A line for each kind of operator in each host node; what is measured is a node as a whole."""
    columns: list[tuple[str, Callable[[HostWork], object]]] = [
        ("node", lambda work: work.name), ("operators", lambda work: work.operators),
        ("operations", lambda work: work.operations),
    ]  # fmt: skip
    if content["host_board_seconds"] is not None:
        columns.append(("board, us (estimated)", lambda work: _microseconds(work.board_seconds)))
    if content["host_seconds"] is not None:
        columns.append(("node here, us (measured)", lambda work: _microseconds(work.seconds)))
    rows = [tuple(of(work) for _, of in columns) for work in host_work(content["host_nodes"])]
    table("Left to the host, one sample", [heading for heading, _ in columns], rows, dropped=["operations"])


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:.1f}"


def _print_work(accelerator: Accelerator, content: dict[str, Any]) -> None:
    _print_operators(content)
    share = f"host: {100 * content['host_share']:.2f} % of the operations ({content['host_operations']:,})"
    if content["host_seconds"] is not None:
        where = f"{content['host_cpu']} with {content['host_library']}"
        share += f", {milliseconds(content['host_seconds'])} on {where} (measured)"
    say(share)
    board = accelerator.board.title
    if not content["latency_includes_host"]:
        say(f"array and host on {board}: not known, the board's file has no `arm_cores`")
        return
    whole = f"{rate(content['stream_images_per_second'])} images/s in a stream"
    whole += f", {milliseconds(content['latency_s'])} alone"
    arm = f"{milliseconds(content['host_board_seconds'])} of each on one {content['host_board_cpu']}"
    say(f"array and host on {board}: about {whole}; {arm} (estimated)")


def _print_cores(accelerator: Accelerator, content: dict[str, Any]) -> None:
    """What the cores of an accelerator reach together; all cycles above are those of one."""
    if content["stream_cores"] == 1:
        say(f"the network learns from sample to sample: one of {accelerator.cores} cores computes it")
        return
    if content["stream_images_per_second"] is None:
        return
    limits = {"cores": "the cores are", "memory": "the board's memory is", "host": "the host is"}
    reached = f"{rate(content['stream_images_per_second'])} images/s in a stream"
    say(f"{content['stream_cores']} cores: about {reached}, host included; {limits[content['stream_limit']]} the limit")


def milliseconds(seconds: float) -> str:
    """`0.056 ms`."""
    return f"{1e3 * seconds:.3f} ms"


def rate(each_second: float | None) -> str:
    """Images a second: whole numbers from 100 on, three digits below; `-` of nothing."""
    if not each_second:
        return "-"
    return f"{each_second:,.0f}" if each_second >= 100 else f"{each_second:.3g}"
