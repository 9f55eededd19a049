"""The time that operators of the host take on the ARM cores of a board."""

from __future__ import annotations

import pytest

from bfpga.accelerator.boards import ArmCores, load_boards
from bfpga.contract.program import HostNode


def test_time_is_that_of_the_operations_and_of_the_calls() -> None:
    cores = ArmCores(2, "Cortex-A9", 650, 0.25, 40, "")
    node = HostNode("host_0", b"", (), (), ("GRU", "Softmax", "Add"), 12_500_000)
    assert cores.node_seconds(node) == pytest.approx(12.5e6 / 0.25e9 + 3 * 40e-6)


def test_every_shipped_board_has_arm_cores() -> None:
    kinds = {"zynq7": ("Cortex-A9", 2), "zynqmp": ("Cortex-A53", 4)}
    for board in load_boards():
        assert board.arm_cores is not None
        assert (board.arm_cores.kind, board.arm_cores.count) == kinds[board.processing_system]
        clocks = 1e3 * board.arm_cores.assumed_gflops / board.arm_cores.clock_mhz
        assert clocks == pytest.approx(0.5, rel=0.05), "the assumption: half an operation a clock"
        assert "not measured" in board.arm_cores.assumption
