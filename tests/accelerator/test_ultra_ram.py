"""Memories of UltraRAM: which kernels and boards have them, and what they take (issue 16, zcu104_zero_skip)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.constraints import board_findings
from bfpga.accelerator.loader import load_accelerator
from bfpga.engines.interface.resource_units import ultra_blocks
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.errors import ConfigurationError
from bfpga.estimate.hardware import Area, HardwareFigures, findings

ZERO_SKIP = load_accelerator("zcu104_zero_skip")


@pytest.mark.parametrize(("depth", "width", "blocks"), [(4096, 72, 1), (4096, 73, 2), (4097, 72, 2), (16384, 576, 32)])
def test_an_ultra_ram_holds_4096_words_of_72_bits(depth: int, width: int, blocks: int) -> None:
    """UG573, chapter 2."""
    assert ultra_blocks(depth, width) == blocks


def test_memories_of_ultra_ram_take_no_block_memory() -> None:
    """A block for each of 37 banks of 32 bits; 16,384 words of 32 entries of 18 bits."""
    config = ZERO_SKIP.config
    ultra, blocks = (estimate_resources(replace(config, ultra_ram=own)).total for own in (config.ultra_ram, ()))
    assert (ultra.uram, blocks.uram) == (37 + 4 * 8, 0)
    assert blocks.bram36 - ultra.bram36 == 37 * 4 + 8 * 32
    assert blocks.bram36 > ZERO_SKIP.board.bram36


def test_an_array_that_skips_activations_has_its_memories_in_ultra_ram_too() -> None:
    """12,288 words of 32 x 4 weights; copies of a chunk's weights take most of its block memory."""
    accelerator = load_accelerator("zcu104_sparse")
    total = estimate_resources(accelerator.config).total
    assert total.uram == 37 + 3 * 15
    assert 64 * 4 < total.bram36 <= 0.92 * accelerator.board.bram36


def test_a_board_without_ultra_ram_is_named(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "configs" / "accelerators" / "pynq_z2_dense.yaml").read_text()
    path = tmp_path / "own.yaml"
    path.write_text(f"{text.rstrip()}\n    ultra_ram: [weights]\n")
    said = r"engines\[0\].ultra_ram: is \[weights\]: TUL PYNQ-Z2 has no UltraRAM"
    with pytest.raises(ConfigurationError, match=said):
        load_accelerator(str(path))


def test_more_ultra_ram_than_the_board_has_is_refused() -> None:
    config = replace(ZERO_SKIP.config, weight_words=65536)
    (found,) = board_findings(config, ZERO_SKIP.board)
    assert "165 UltraRAMs (288 Kbit) in all, more than the 96" in found.text


def test_the_gate_judges_ultra_ram_of_boards_that_have_it() -> None:
    figures = HardwareFigures("x", "xczu7ev", "", 5.333, 3.9, (), memories=Area(uram=90), counted=True)
    assert findings(figures, load_board("zcu104").resources) == ["URAM: 90 of 96 (94 %), above 92 %"]
    assert "uram" not in load_board("pynq_z2").resources
