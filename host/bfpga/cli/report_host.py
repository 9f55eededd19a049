"""What the host adds to an accelerator: its share of the work, its time here and on the board, the whole latency."""

from __future__ import annotations

from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.cli.output import note, say
from bfpga.contract.program import Program
from bfpga.devices.host_time import HostTime, measure_host
from bfpga.errors import ProgramError
from bfpga.estimate.host import arm_seconds, host_seconds
from bfpga.program.host import host_nodes, host_share


def host_content(accelerator: Accelerator, program: Program, array_seconds: float) -> dict[str, Any]:
    """Work and time of the host and the latency of one sample (or of those side by side), for every report.

    array_seconds: of the array alone. Array and host work one after the other. The host's part of ``latency_s`` is the
    estimate for a core of the board; ``host_seconds`` is measured on this machine.
    """
    nodes, cores = host_nodes(program), accelerator.board.arm_cores
    measured = _measured(program) if nodes else None
    arm = [arm_seconds(node, cores) for node in nodes] if cores else []
    board_seconds = host_seconds(program, cores)
    latency = array_seconds + (board_seconds or 0.0)
    return {
        "host_share": host_share(program),
        "host_operations": sum(node.flops for node in nodes),
        "host_seconds": measured.seconds if measured else None if nodes else 0.0,
        "host_cpu": measured.cpu if measured else None,
        "host_library": measured.library if measured else None,
        "host_board_seconds": board_seconds,
        "host_board_cpu": cores.title if cores else None,
        "host_nodes": [
            {
                "name": node.name,
                "operators": list(node.operators),
                "operations": node.flops,
                "seconds": measured.nodes[node.name] if measured else None,
                "board_seconds": arm[index] if arm else None,
            }
            for index, node in enumerate(nodes)
        ],
        "latency_s": latency,
        "latency_array_s": array_seconds,
        "latency_includes_host": board_seconds is not None,
        "images_per_second": program.side_by_side / latency if latency and board_seconds is not None else None,
    }


def _measured(program: Program) -> HostTime | None:
    try:
        return measure_host(program)
    except ProgramError as error:
        note(f"the time of the host is not measured: {error}")
        return None


def print_host(accelerator: Accelerator, content: dict[str, Any]) -> None:
    """The host's part of ``host_content`` and the latency with it; nothing where the array computes everything."""
    if not content["host_nodes"]:
        return
    share = f"host: {100 * content['host_share']:.2f} % of the operations ({content['host_operations']:,})"
    if content["host_seconds"] is not None:
        where = f"{content['host_cpu']} with {content['host_library']}"
        share += f", {milliseconds(content['host_seconds'])} on {where} (measured)"
    say(share)
    board = accelerator.board.title
    if not content["latency_includes_host"]:
        say(f"array and host on {board}: not known, the board's file has no `arm_cores`")
        return
    whole = f"about {milliseconds(content['latency_s'])}, {rate(content['images_per_second'])} images/s"
    arm = f"{milliseconds(content['host_board_seconds'])} of it on one {content['host_board_cpu']}"
    say(f"array and host on {board}: {whole}; {arm} (estimated)")


def milliseconds(seconds: float) -> str:
    """`0.056 ms`."""
    return f"{1e3 * seconds:.3f} ms"


def rate(each_second: float | None) -> str:
    """Images a second: whole numbers from 100 on, three digits below; `-` of nothing."""
    if not each_second:
        return "-"
    return f"{each_second:,.0f}" if each_second >= 100 else f"{each_second:.3g}"
