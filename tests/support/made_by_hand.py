"""IPs in Verilog by hand, in place of those that this toolkit makes in a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stand_in_ips import stand_in

from bfpga.accelerator.loader import Accelerator
from bfpga.rtl.packaged import ip_file
from bfpga.vendor.bitstream.stage import OwnIp
from bfpga.vendor.kernel_ips import kernel_ips

#: The loops of each process.
LOOPS = {"sequencer": ["Sequencer"], "scratchpad": ["Scratchpad"], "weights": ["Weights"], "array": ["Array"],
         "post": ["Rows"], "store": ["Store"]}  # fmt: skip


@dataclass
class MadeByHand:
    """Makes IPs by hand. ``replaced``: text in the Verilog of a module; ``slow``: loops with their intervals."""

    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    slow: Mapping[str, int] = field(default_factory=dict)
    made: int = 0

    def made_of(self, accelerator: Accelerator) -> list[str]:
        return [str(self.replaced), str(self.slow)]

    def make(self, accelerator: Accelerator) -> dict[str, OwnIp]:
        self.made += 1
        found = {}
        for ip in kernel_ips(accelerator.config):
            old, new = self.replaced.get(ip.function, ("", ""))
            verilog = ip_file(stand_in(ip))
            assert old in verilog
            loops = {label: self.slow.get(label, 1) for label in LOOPS[ip.part]}
            found[ip.function] = OwnIp(verilog.replace(old, new, 1) if old else verilog, loops)
        return found
