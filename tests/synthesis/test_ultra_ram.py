"""Memories of UltraRAM in the code: what a synthesis counts of them. The gate judges the intervals of their loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.synthesis.kept import kept_figures


@pytest.mark.parametrize("name", ["kv260_dense", "zcu104_dense", "zcu104_mixed", "zcu104_cluster"])
def test_memories_of_ultra_ram_are_counted(name: str, tmp_path: Path) -> None:
    """A bank of activations a block of 4,096 words; a word of weights side by side in as many as its bits need."""
    accelerator = load_accelerator(name)
    config, figures = accelerator.config, kept_figures(accelerator, tmp_path)
    assert figures is not None
    assert set(config.ultra_ram) == {"activations", "weights"}
    assert config.activation_words <= 4096
    beside, deep = -(-config.rows * config.lanes * config.weight_bits // 72), -(-config.weight_words // 4096)
    assert figures.memories.uram == config.banks + beside * deep
