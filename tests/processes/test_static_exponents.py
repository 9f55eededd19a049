"""Kernels whose exponents are all static: bits, who refuses what else, what nothing is left of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import drawn
from operand_kernels import OPERANDS
from small_networks import compiled, largest_error, residual_network, simulates_alike

import bfpga
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Policy
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.contract.program import ArrayNode, PolicySpec
from bfpga.engines.configurations import check_config
from bfpga.errors import ConfigurationError, ProgramError
from bfpga.program.checks import check_parts
from bfpga.verify.check import verify
from bfpga.verify.random_accelerator import random_config
from bfpga.verify.random_network import random_program

DYNAMIC = replace(OPERANDS, operand_weights=False, position_bins=0)
STATIC = replace(DYNAMIC, static_exponents=True)


@pytest.mark.parametrize("target", ["csim:stalled"])
def test_random_networks(target: str) -> None:
    report = verify([STATIC], [target], drawn(25))
    assert report.mismatch is None, report.mismatch


def test_random_kernels_have_it() -> None:
    configs = [random_config(np.random.default_rng(seed)) for seed in range(60)]
    assert 3 < sum(config.static_exponents for config in configs) < 30


def test_a_calibrated_network_runs_as_on_a_kernel_that_could_find_exponents(tmp_path: Path) -> None:
    """The same nodes, so the same bits, on the emulator and in C++."""
    network = residual_network()
    found, expected = (compiled(network, tmp_path, config) for config in (STATIC, DYNAMIC))
    policies = [[node.policy for node in program.nodes if isinstance(node, ArrayNode)] for program in (found, expected)]
    assert policies[0] == policies[1]
    assert largest_error(network, found) == largest_error(network, expected) < 0.1
    assert simulates_alike(found, network.samples(3))


def test_without_samples_the_message_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs calibration samples; give some or use another accelerator"):
        compiled(residual_network(), tmp_path, STATIC, calibrate=False)


@pytest.mark.parametrize("policy", ["max", "dynamic", "rolling_max", "feedback", "stats", "static_history", "delayed"])
def test_policies_at_run_time_are_refused(policy: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"policy {policy} finds exponents at run time.*static_exponents"):
        compiled(residual_network(), tmp_path, STATIC, CompileOptions(policy=policy))


def test_define_by_run_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="find their exponents at run time"):
        bfpga.eager("kv260_two_cores")


def test_a_program_that_finds_exponents_is_refused() -> None:
    program = random_program(np.random.default_rng(1), STATIC)
    node = next(item for item in program.nodes if isinstance(item, ArrayNode))
    node.policy = PolicySpec(Policy.MAX)
    with pytest.raises(ProgramError, match=r"found at run time \(max\), and its kernel has static ones alone"):
        check_parts(program)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"position_bins": 16}, "position_bins"), ({"wide_words": 64}, "wide_words"),
        ({"lanes": 4, "wide_memory": True}, "wide_memory"),
    ],
)
def test_what_serves_exponents_at_run_time_is_refused(changes: Mapping[str, Any], key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} .*static_exponents"):
        check_config(replace(STATIC, **changes))


def test_other_kernels_have_no_trace_of_it_in_their_identity() -> None:
    assert ["static_exp" in json.dumps(kernel_identity(config)) for config in (STATIC, DYNAMIC)] == [True, False]
