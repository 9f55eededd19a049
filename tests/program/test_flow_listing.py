"""What `bfpga compile` tells of exponents that a preceding operation finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from position_programs import POSITIONS, dynamic, one_convolution
from small_networks import compiled, residual_network, small_network

from bfpga.cli import main
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import PolicySpec
from bfpga.program.cycles import program_cycles
from bfpga.program.flow_listing import FLOWS_TITLE, flow_choices, flow_rows
from bfpga.program.listing import listing

LENET = str(Path(__file__).parents[2] / "examples" / "models" / "lenet_mnist.onnx")
#: An accelerator with collector and keep buffer.
COLLECTING = str(Path(__file__).parents[1] / "data" / "dense.yaml")


def test_the_listing_tells_flow_rule_sample_and_clocks_of_the_alternatives(tmp_path: Path) -> None:
    """FP R33, R36: a readable table of the choice; R35: layers without a preceding operation are not in it."""
    options = CompileOptions(policy="dynamic", flow="auto", sample=3, rate=6, margin=1)
    program = compiled(small_network(), tmp_path, POSITIONS, options, calibrate=False)
    text = listing(program)
    assert FLOWS_TITLE in text
    nodes = {node.name: node for node in program.nodes}
    rows = flow_rows(program)
    assert [row[0] for row in rows] == [name for name, node in nodes.items() if node.kind == "gemm"]  # type: ignore[union-attr]
    for name, flow, rule, measured, cycles, compared in rows:
        node = nodes[name]
        assert flow == node.policy.flow  # type: ignore[union-attr]
        assert rule == "rate 1/64 + 1"
        assert measured == "all" or "1 of" in measured
        assert cycles == f"{program_cycles(program).layers[name].total:,}"
        assert "two_pass_sampled" in compared
        assert f"{flow} {node.flow_clocks[flow]:,}" in compared  # type: ignore[union-attr]
        assert name in text


def test_machines_read_the_same(tmp_path: Path) -> None:
    """FP R49: share that is measured, rule, flow and clocks."""
    (whole,) = flow_choices(one_convolution(dynamic("keep", rule="lsb")))
    assert (whole["flow"], whole["rule"], whole["measured"], whole["compared"]) == ("keep", "lsb", 1.0, {})
    (sampled,) = flow_choices(one_convolution(dynamic("two_pass_sampled", 3, 1)))
    assert 1 / 3 <= sampled["measured"] < 0.6
    assert sampled["cycles"] > 0


def test_networks_without_rules_are_listed_as_ever(tmp_path: Path) -> None:
    """The largest of all results needs no table."""
    program = compiled(residual_network(), tmp_path, calibrate=False)
    assert FLOWS_TITLE not in listing(program)
    assert FLOWS_TITLE not in listing(one_convolution(PolicySpec(exponent=-3)))


def test_the_command_line_chooses_flow_and_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R36: `--policy dynamic --flow ... --rule ...`."""
    target, written = tmp_path / "lenet.bfpga", tmp_path / "lenet.json"
    arguments = ["compile", LENET, "-a", COLLECTING, "-o", str(target), "--json", str(written)]
    assert main([*arguments, "--policy", "dynamic", "--flow", "keep_sampled", "--rule", "max"]) == 0
    assert FLOWS_TITLE in capsys.readouterr().out
    choices = json.loads(written.read_text())["flow_choices"]
    assert {choice["flow"] for choice in choices} == {"keep_sampled"}
    assert {choice["rule"] for choice in choices} == {"max"}


@pytest.mark.parametrize(
    ("accelerator", "options", "message"),
    [
        ("tiny", ["--flow", "thrice"], "flow 'thrice' is unknown; known are auto, two_pass"),
        ("tiny", ["--rule", "best"], "rule 'best' is unknown; known are rate, max, lsb"),
        ("pynq_z2_shift", ["--rule", "rate"], "rule rate needs a collector of statistics; choose rule lead, or"),
        ("pynq_z2_shift", ["--rule", "lead", "--flow", "keep"], "flow keep needs a place for accumulators"),
    ],
)
def test_mistakes_are_one_clear_error(
    accelerator: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "lenet.bfpga")
    assert main(["compile", LENET, "-a", accelerator, "-o", target, "--policy", "dynamic", *options]) != 0
    shown = capsys.readouterr().err
    assert message in " ".join(shown.split())
    assert "Traceback" not in shown


def test_an_accelerator_without_a_collector_follows_the_leading_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample may miss the largest value, which this rule does not forgive: everything is computed twice."""
    written = tmp_path / "lenet.json"
    arguments = ["compile", LENET, "-a", "pynq_z2_shift", "-o", str(tmp_path / "lenet.bfpga"), "--json", str(written)]
    assert main([*arguments, "--policy", "dynamic"]) == 0, capsys.readouterr().err
    choices = json.loads(written.read_text())["flow_choices"]
    assert {(choice["rule"], choice["flow"]) for choice in choices} == {("lead", "two_pass")}
