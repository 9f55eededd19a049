"""What the kernel's registers hold: at each limit both sides agree, one above it is refused in words (BFP R26, R36)."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import mutations
from small_networks import Network
from structure_mutations import packed, signed

import bfpga
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.compiler.options import LARGEST_WINDOW, CompileOptions
from bfpga.contract import limits
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Operation, Policy
from bfpga.contract.program import LaunchStep, Program
from bfpga.errors import BfpgaError, ConfigurationError, ProgramError
from bfpga.program.file import HEADER, load_program, save_program
from bfpga.program.limits import check_limits
from bfpga.vendor.render import library_directory

CONFIG = KernelConfig(position_bins=32, wide_words=64)
POLICIES = (Policy.STATIC, Policy.STATISTICS, Policy.ROLLING_MAX, Policy.FEEDBACK)


def legal(policy: Policy) -> Descriptor:
    """A descriptor that every limit allows."""
    return Descriptor(int(Operation.GEMM), group_columns=1, policy=policy, policy_window=1, policy_factor=1)


CASES = [
    pytest.param(policy, item, id=f"{policy.name}-{item.field}")
    for policy in POLICIES
    for item in limits.ranges(CONFIG, legal(policy))
]


@pytest.mark.parametrize(("policy", "item"), CASES)
def test_every_field_is_taken_up_to_its_limit_and_refused_above(policy: Policy, item: limits.Range) -> None:
    """A field may have two ranges (a count of pixels that is at least one): the narrower one counts."""
    same = [other for other in limits.ranges(CONFIG, legal(policy)) if other.field == item.field]
    low, high = max(other.low for other in same), min(other.high for other in same)
    enumerations = ("operation", "function", "policy", "lead_rule")
    if item.field not in enumerations:
        for value in (low, high):
            assert not list(limits.problems(CONFIG, replace(legal(policy), **{item.field: value})))
    for value in (low - 1, high + 1):
        found = list(limits.problems(CONFIG, replace(legal(policy), **{item.field: value})))
        assert any(text.startswith(f"{item.field} is {value}; ") for text in found), found


@pytest.mark.parametrize(
    ("header", "text", "value"),
    [
        ("exponent_selector", r"window_bits = (\d+);", limits.STATISTICS_WINDOW_BITS),
        ("exponent_selector", r"factor_bits = (\d+);", limits.POLICY_FACTOR_BITS),
        ("exponent_selector", r"ring_leads = (\d+);", limits.RING_LEADS),
        ("lead_collector", r"rate_ >= 0 && rate_ < (\d+),", 1 << limits.POSITION_RATE_BITS),
        ("output_stage", r"exponent >= -\(1 << (\d+)\)", limits.STAGE_EXPONENT_BITS - 1),
    ],
)
def test_limits_are_those_of_the_kernel(header: str, text: str, value: int) -> None:
    found = re.search(text, (library_directory() / "bfpga/output" / f"{header}.hpp").read_text())
    assert found
    assert int(found[1]) == value


def network() -> Network:
    """A convolution whose first column of the array sees 8192 values and more in a few samples."""
    result = Network(3, 32, 32)
    result.conv(16, 3, 3, pads=[1, 1, 1, 1])
    return result


def compiled(folder: Path, accelerator: str = "tiny", **options: Any) -> tuple[Program, np.ndarray]:
    path = folder / "network.onnx"
    path.write_bytes(network().model().SerializeToString())
    x = network().samples(8)["x"]
    return bfpga.compile(path, accelerator, x, CompileOptions(**options)), x


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "stats", "window": LARGEST_WINDOW, "k": 16.0},
        {"policy": "stats", "window": 1, "k": 0.25},
        {"policy": "rolling_max", "history": limits.RING_LEADS},
        {"policy": "feedback", "limit": limits.WORD_MAX},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_both_sides_agree_at_the_limits(options: dict[str, Any], tmp_path: Path) -> None:
    program, x = compiled(tmp_path, **options)
    few = x if options.get("window") == LARGEST_WINDOW else x[:2]
    assert bfpga.compare(program, few, "csim").bit_exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "stats", "window": 2 * LARGEST_WINDOW}, "window = 16384 is not a power of two up to 8192"),
        ({"policy": "rolling_max", "history": 9}, "history = 9 is not between 1 and 8"),
        ({"policy": "feedback", "limit": 1 << 31}, "limit = 2147483648 is not a number of overflows"),
        ({"policy": "lookup", "exponent": 128}, "exponent = 128 is not between -128 and 127"),
        ({"policy": "lookup", "exponent": -129}, "exponent = -129 is not between"),
        ({"policy": "dynamic", "rate": 17}, "rate = 17 is not between 0 and 16"),
    ],
)
def test_recipes_beyond_a_limit_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """R36: 16384 values in a window gave other bits in the kernel than in the emulator."""
    with pytest.raises(ConfigurationError, match=message):
        compiled(tmp_path, **options)


def test_starts_that_the_cycle_register_cannot_count_are_refused(tmp_path: Path) -> None:
    program, _ = compiled(tmp_path)
    step = next(step for step in program.steps if isinstance(step, LaunchStep))
    longest = next(item.descriptor for item in step.operations if item.descriptor.operation == Operation.GEMM)
    check_limits(program)
    longest.channel_words = 1 << 30
    with pytest.raises(ProgramError, match="the kernel counts 4,294,967,295 at most"):
        check_limits(program)


def edited(path: Path, change: Any) -> None:
    """Change the header of a program file and pack it again, checksums and all."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members[HEADER])
    members[HEADER] = change(header)
    path.write_bytes(packed(signed(list(members.items())), zipfile.ZIP_STORED))


@pytest.mark.parametrize("value", [1e30, 1 << 31, -(1 << 31) - 1, 1 << 62, None, "7", [1]])
def test_descriptor_words_that_are_no_words_are_refused(value: Any, tmp_path: Path) -> None:
    program, _ = compiled(tmp_path)
    path = tmp_path / "network.program"
    save_program(program, path)

    def change(header: dict[str, Any]) -> bytes:
        operation = next(step for step in header["program"]["steps"] if "operations" in step)["operations"][0]
        operation["descriptor"][8] = value
        return json.dumps(header).encode()

    edited(path, change)
    with pytest.raises(ProgramError, match=r"damaged|a word holds"):
        load_program(path)


def test_damaged_programs_are_programs_or_one_error(tmp_path: Path) -> None:
    """Damage anywhere, and damage inside the header with checksums that are right; deep nesting too."""
    program, _ = compiled(tmp_path)
    whole = tmp_path / "whole.program"
    save_program(program, whole)
    data, path, refused = whole.read_bytes(), tmp_path / "network.program", 0
    with zipfile.ZipFile(whole) as archive:
        header = archive.read(HEADER)
    nested = b'{"magic": "bfpga program", "version": ' + b"[" * 990 + b"]" * 990 + b"}"
    inside = [*mutations(header, 150, seed=3), b"[" * 100_000, b'{"magic":' * 5_000, nested]
    for mutant in [*mutations(data, 150, seed=4), *inside]:
        path.write_bytes(data if mutant in inside else mutant)
        if mutant in inside:
            edited(path, lambda _, text=mutant: text)
        refused += refusal(path)
    assert refused > 150


def refusal(path: Path) -> bool:
    """Whether a program is refused, with one line that begins with its path."""
    try:
        load_program(path)
    except BfpgaError as error:
        return str(error).startswith(str(path)) and "\n" not in str(error)
    return False


@pytest.mark.parametrize("name", accelerator_names())
def test_counts_of_every_ready_accelerator_fit_descriptor_words(name: str) -> None:
    config = load_accelerator(name).config
    assert all(item.high <= limits.WORD_MAX for item in limits.ranges(config, legal(Policy.STATISTICS)))
    assert max(config.weight_words, config.parameter_rows, limits.largest_coordinate(config)) < limits.WORD_MAX
