"""A kernel with a tile in the place of its array: bits, counters and work of the emulator, and who refuses what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import TILE
from effort import drawn
from stream_depths import DepthTrial

from bfpga.accelerator.constraints import config_findings
from bfpga.devices.csim import CSimulation
from bfpga.errors import DeviceError
from bfpga.formats.block_format import BlockFormat
from bfpga.vendor.render import library_directory
from bfpga.verify.check import verify


@pytest.mark.parametrize(
    ("target", "changes", "cases"),
    [
        ("csim", {}, 40),
        pytest.param("csim", {"array_parallel": 6, "columns": 3, "lanes": 2, "rows": 4}, 20, marks=pytest.mark.slow),
        ("csim:exact", {"rows": 8, "array_rows": 9, "array_columns": 9}, 10),
        ("virtual", {}, 6),
        pytest.param("virtual", {"count_registers": 2}, 6, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_random_networks(target: str, changes: dict[str, Any], cases: int) -> None:
    """ZS R1, R4, R10-R13, R15-R17, R19, R25, R27, R47, R50, R52, R54: layers are cut into
    maps that fill the tile, results pass the output stage; in C++ or on the virtual board."""
    config = changed(TILE, **changes)
    assert list(config_findings(config)) == []
    report = verify([config], [target], drawn(cases))
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(cases)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"array_parallel": 4}, "rows_parallel"),
        ({"array_rows": 10}, "tile"),
        ({"array_columns": 16}, "tile"),
        ({"array_rows": 3, "array_columns": 3}, "tile"),
        ({"rows": 12}, "rows"),
        ({"lanes": 1, "array_kernel": 5, "array_parallel": 5, "array_rows": 10, "format": BlockFormat(2)}, "lanes"),
    ],
)
def test_tiles_that_cannot_be_are_refused(changes: dict[str, Any], key: str) -> None:
    assert key in [finding.key for finding in config_findings(changed(TILE, **changes))]


def test_words_that_a_start_leaves_in_a_stream_are_an_error(tmp_path: Path) -> None:
    """Issue 36: hardware would take them for those of its next start. Here the end is sent word by word to an array
    that reads one."""
    header = Path("bfpga/processes/sparse_cluster/array_commands.hpp")
    text = (library_directory() / header).read_text()
    assert text.count("(first && ends)") == 1
    (tmp_path / header.parent).mkdir(parents=True)
    (tmp_path / header).write_text(text.replace("(first && ends)", "ends"))
    kernel = CSimulation(TILE, flags=["-I", str(tmp_path)])
    with pytest.raises(DeviceError, match=r"stream `array_commands` holds \d+ words after the end of the start"):
        DepthTrial(np.random.default_rng(1), kernel)
