"""An accelerator's digest says what its kernel is: a key counts by what it does there, not by being declared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from array_kinds import KINDS
from changed_kernels import changed

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.arrays.base import Array
from bfpga.contract.arrays.skip_array import SkipArray, SparseArray, TwoArrays
from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.kernel_numbers import BEFORE, kernel_identity
from bfpga.engines.configurations import ARRAYS
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
        "        array=SystolicArray(section.hop_columns),",
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
    "wide_words": ("tiny", 513), "wide_memory": ("tiny", True), "ultra_ram": ("zcu104_dense", ()),
    "position_stream": ("tiny", True),
    "count_registers": ("tiny", 4), "compressed_maps": ("tiny", True), "row_columns": ("tiny", 2),
    "operand_weights": ("tiny", True), "residual_adds": ("tiny", True),
    "static_exponents": ("tiny", True), "program_descriptors": ("tiny", 8),
    "function_tables": ("tiny", 2), "post_columns": ("tiny", 1),
    "array": ("zcu104_hetero", SparseArray(64, 32, 16)),
}  # fmt: skip
#: The same of the numbers of each kind of array.
ARRAY_CHANGES: dict[type[Array], tuple[str, dict[str, Any]]] = {
    SystolicArray: ("tiny", {"hop_columns": 2}),
    SkipArray: ("pynq_z2_zero_skip", {"groups": 15, "chunk": 128, "queue": 33}),
    SparseArray: ("pynq_z2_sparse", {"chunk": 128, "queue": 33, "passes": 17}),
    TwoArrays: ("zcu104_hetero", {"chunk": 128, "queue": 33, "passes": 17}),
    SparseCluster: ("zcu104_cluster", {
        "rows": 3, "columns": 3, "kernel": 5, "words": 65, "queue": 65, "map_lines": 65, "map_blocks": 513,
        "threshold": 4, "moves": 255, "variant": "B", "form": "halo", "lanes": 8,
    }),
    ZeroSkipTile: ("zcu104_zero_skip_tile", {"kernel": 5, "rows": 9, "columns": 9, "parallel": 4}),
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
    ready = {name: load_accelerator(name) for name in KINDS}
    known = {name: [one.digest, Compiled.of(one).digests] for name, one in ready.items()}
    assert digests(with_new_keys, *known) == known


@pytest.mark.parametrize("key", ["spare: 8", "ahead: 1"])
def test_a_new_key_with_another_value_is_another_digest(with_new_keys: Path, key: str, tmp_path: Path) -> None:
    text = (ROOT / "configs" / "accelerators" / "tiny.yaml").read_text()
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace("    columns:", f"    {key}\n    columns:"))
    assert text != path.read_text()
    assert digests(with_new_keys, path)[str(path)][0] != load_accelerator("tiny").digest


def test_every_number_of_a_kernel_has_a_change() -> None:
    numbers = {item.name for item in fields(KernelConfig)}
    assert set(CHANGES) == numbers
    assert set(ARRAY_CHANGES) == set(ARRAYS)
    for kind, (_, changes) in ARRAY_CHANGES.items():
        assert set(changes) == {item.name for item in fields(kind)}, kind


@pytest.mark.parametrize("kind", ARRAY_CHANGES)
def test_every_number_of_an_array_is_in_the_identity_of_its_kernel(kind: type[Array]) -> None:
    accelerator, changes = ARRAY_CHANGES[kind]
    config = load_accelerator(accelerator).config
    assert type(config.array) is kind
    for name, value in changes.items():
        other = changed(config, **{f"array_{name}": value})
        assert other != config, name
        assert kernel_identity(other) != kernel_identity(config), name


@pytest.mark.parametrize("name", CHANGES)
def test_every_number_of_a_kernel_is_in_its_identity(name: str) -> None:
    accelerator, value = CHANGES[name]
    config = load_accelerator(accelerator).config
    if value == "narrower":
        assert config.shift is not None
        value = replace(config.shift, exp_width=config.shift.exp_width - 1)
    other = replace(config, **{name: value})
    assert other != config
    assert kernel_identity(other) != kernel_identity(config)


@dataclass(frozen=True)
class Copy(SystolicArray):
    """An array of another kind with the numbers and the streams of a systolic array."""

    kind: ClassVar[str] = "copy"


def test_arrays_of_two_kinds_with_the_same_numbers_have_other_identities() -> None:
    config = load_accelerator("tiny").config
    other = replace(config, array=Copy(**asdict(config.array)))
    assert kernel_identity(other) == kernel_identity(config) | {"array": "copy"}


def test_numbers_of_what_a_kernel_has_not_are_not_in_its_identity() -> None:
    config = load_accelerator("tiny").config
    numbers = kernel_identity(config)["numbers"]
    assert not [name for name in numbers if name.startswith(("skip_", "cluster_", "tile_", "count_"))]


def test_what_was_before_a_number_is_what_kernels_have_without_it() -> None:
    """The values with which kernels were built; they never change, or two kernels would have one digest."""
    assert BEFORE == {"skip_halves": 2, "skip_chunk": 256, "skip_queue": 32, "skip_passes": 16}
