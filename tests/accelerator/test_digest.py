"""An accelerator's digest says what its kernel is: a key counts by what it does there, not by being declared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.kernel_numbers import BEFORE, kernel_identity
from bfpga.formats.block_format import BlockFormat
from bfpga.synthesis.kept import Compiled

ROOT = Path(__file__).parents[2]

#: File of the package -> (line, lines before it) that give arrays two keys: one that is off, one that was a constant.
NEW_KEYS = {
    "contract/configuration.py": (
        "    compressed_maps: bool = False",
        "    spare: Words = 9\n    ahead: WidthOrNone = 0",
    ),
    "accelerator/schema.py": ("    hop_columns: ", "    spare: int = Field(9, ge=1)\n    ahead: int = Field(0, ge=0)"),
    "accelerator/loader.py": (
        "        hop_columns=section.hop_columns,",
        "        spare=section.spare,\n        ahead=section.ahead,",
    ),
    "contract/kernel_numbers.py": (
        "            position_bins=config.position_bins,",
        "            spare=config.spare,\n            ahead=config.ahead,",
    ),
}
SCRIPT = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from bfpga.accelerator.loader import load_accelerator
assert sys.argv[1] in load_accelerator.__code__.co_filename
from bfpga.synthesis.kept import Compiled
accelerators = {name: load_accelerator(name) for name in sys.argv[2:]}
print(json.dumps({name: [one.digest, Compiled.of(one).digests] for name, one in accelerators.items()}))
"""
#: Changed number of a kernel -> a ready accelerator that has it, and another value.
CHANGES: dict[str, tuple[str, Any]] = {
    "format": ("tiny", BlockFormat(8, 8, rounding="half_up")), "columns": ("tiny", 3), "rows": ("tiny", 8),
    "lanes": ("tiny", 4), "multiplier": ("tiny", "dsp"), "dsp": ("tiny", "DSP48E2"), "accumulator_bits": ("tiny", 25),
    "bias_bits": ("tiny", 19), "activation_words": ("tiny", 513), "weight_words": ("tiny", 513),
    "parameter_rows": ("tiny", 129), "stream_bits": ("tiny", 128), "weight_stream_bits": ("tiny", 128),
    "functions": ("tiny", ("none", "relu", "clip")), "tensor_slots": ("tiny", 65), "policy_slots": ("tiny", 65),
    "shift_columns": ("pynq_z2_mixed", 3), "shift": ("pynq_z2_mixed", "narrower"), "position_bins": ("tiny", 17),
    "wide_words": ("tiny", 513), "wide_memory": ("tiny", True), "hop_columns": ("tiny", 2),
    "skip_groups": ("pynq_z2_zero_skip", 15), "skip_source": ("pynq_z2_sparse", "weights"),
    "skip_halves": ("pynq_z2_sparse", 3), "skip_chunk": ("pynq_z2_sparse", 128), "skip_queue": ("pynq_z2_sparse", 33),
    "skip_passes": ("pynq_z2_sparse", 17), "dense_beside": ("zcu104_hetero", False),
    "cluster_rows": ("zcu104_cluster", 3), "cluster_columns": ("zcu104_cluster", 3),
    "cluster_kernel": ("zcu104_cluster", 5), "cluster_words": ("zcu104_cluster", 65),
    "cluster_queue": ("zcu104_cluster", 65), "cluster_lines": ("zcu104_cluster", 65),
    "cluster_blocks": ("zcu104_cluster", 513), "cluster_threshold": ("zcu104_cluster", 4),
    "cluster_moves": ("zcu104_cluster", 255), "cluster_variant": ("zcu104_cluster", "B"),
    "cluster_form": ("zcu104_cluster", "halo"), "cluster_products": ("zcu104_cluster", 8),
    "tile_rows": ("zcu104_zero_skip_tile", 9), "tile_columns": ("zcu104_zero_skip_tile", 9),
    "tile_parallel": ("zcu104_zero_skip_tile", 4), "ultra_ram": ("zcu104_dense", ()), "count_registers": ("tiny", 4),
    "compressed_maps": ("tiny", True),
}  # fmt: skip


@pytest.fixture(scope="module")
def with_new_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which accelerators of systolic arrays have two keys more."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "hardware")
    shutil.copytree(ROOT / "host" / "bfpga", folder / "bfpga", ignore=ignored)
    shutil.copytree(ROOT / "configs", folder / "bfpga" / "configs", ignore=ignored)
    shutil.copytree(ROOT / "hls" / "vitis_hls_templates", folder / "vitis_hls_templates", ignore=ignored)
    for file, (here, keys) in NEW_KEYS.items():
        path = folder / "bfpga" / file
        before, found, after = path.read_text().partition(here)
        assert found, f"{file} has no line `{here}` any more"
        path.write_text(f"{before}{keys}\n{found}{after}")
    table = folder / "bfpga" / "contract" / "kernel_numbers.py"
    table.write_text(table.read_text().replace("Number] = {", 'Number] = {"spare": 9, '))
    return folder


def digests(package: Path, *names: str | Path) -> dict[str, list[Any]]:
    """Digests of accelerators, and of the sources of their IPs, as a copy of the package finds them."""
    command = [sys.executable, "-I", "-c", SCRIPT, str(package), *map(str, names)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, list[Any]] = json.loads(result.stdout)
    return found


def test_a_new_key_with_its_default_leaves_every_digest_as_it_is(with_new_keys: Path) -> None:
    """And no figures are stale: no header reads the new numbers yet."""
    ready = {name: load_accelerator(name) for name in accelerator_names()}
    known = {name: [one.digest, Compiled.of(one).digests] for name, one in ready.items()}
    assert digests(with_new_keys, *known) == known


@pytest.mark.parametrize("key", ["spare: 8", "ahead: 1"])
def test_a_new_key_with_another_value_is_another_digest(with_new_keys: Path, key: str, tmp_path: Path) -> None:
    text = (ROOT / "configs" / "accelerators" / "tiny.yaml").read_text()
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace("    columns:", f"    {key}\n    columns:"))
    assert text != changed.read_text()
    assert digests(with_new_keys, changed)[str(changed)][0] != load_accelerator("tiny").digest


def test_every_number_of_a_kernel_has_a_change() -> None:
    numbers = {item.name for item in fields(KernelConfig)}
    assert set(CHANGES) == numbers


@pytest.mark.parametrize("name", CHANGES)
def test_every_number_of_a_kernel_is_in_its_identity(name: str) -> None:
    accelerator, value = CHANGES[name]
    config = load_accelerator(accelerator).config
    if value == "narrower":
        assert config.shift is not None
        value = replace(config.shift, exp_width=config.shift.exp_width - 1)
    changed = replace(config, **{name: value})
    assert changed != config
    assert kernel_identity(changed) != kernel_identity(config)


def test_numbers_of_what_a_kernel_has_not_are_not_in_its_identity() -> None:
    config = load_accelerator("tiny").config
    numbers = kernel_identity(config)["numbers"]
    assert not [name for name in numbers if name.startswith(("skip_", "cluster_", "tile_", "count_"))]
    assert kernel_identity(replace(config, cluster_words=65, tile_rows=3)) == kernel_identity(config)


def test_what_was_before_a_number_is_what_kernels_have_without_it() -> None:
    """The values with which kernels were built; they never change, or two kernels would have one digest."""
    assert BEFORE == {"skip_halves": 2, "skip_chunk": 256, "skip_queue": 32, "skip_passes": 16}
