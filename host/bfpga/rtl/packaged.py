"""The IPs of a kernel in Verilog, each by itself: a file that has all of its modules, for Vivado's packager."""

from __future__ import annotations

import re

from bfpga.accelerator.loader import Accelerator
from bfpga.rtl.ip import IpVerilog
from bfpga.rtl.kernel import ips_of, made_of
from bfpga.rtl.whole import whole_text
from bfpga.vendor.bitstream.stage import OwnIp


class PackagedVerilog:
    """Makes the IPs of builds: see `OwnHls`."""

    def made_of(self, accelerator: Accelerator) -> list[str]:
        """All that the IPs follow from."""
        return made_of(accelerator)

    def make(self, accelerator: Accelerator) -> dict[str, OwnIp]:
        """Every IP of a kernel by the name of its module.

        ToolError if clang is missing or refuses the kernel, and for code that has no place in hardware.
        """
        return {made.ip.function: OwnIp(ip_file(made), made.intervals) for made in ips_of(accelerator)}


def ip_file(made: IpVerilog) -> str:
    """All modules of an IP. The names of all begin with the IP's, so that no two IPs of a design have one in common."""
    text = whole_text(made)
    function = made.ip.function
    others = [name for name in made.modules if name != function and not name.startswith(f"{function}_")]
    if others:
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, others))})\b")
        text = pattern.sub(rf"{function}_\1", text)
    return text.rstrip() + "\n"
