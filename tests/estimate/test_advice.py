"""What costs most: every share is checked against a schedule, every remedy by following it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_networks import Network, attention_network, recurrent_network

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.engines.interface.resource_units import Resources
from bfpga.estimate.advice import LINES, WORTH, Advice, advice
from bfpga.estimate.program import estimate_program
from bfpga.estimate.sample import estimate_sample

DENSE = load_accelerator("pynq_z2_dense")


def made(
    network: Network, folder: Path, accelerator: Accelerator, outputs: list[str] | None = None, together: int = 1
) -> Program:
    path = folder / "net.onnx"
    path.write_bytes(network.model().SerializeToString())
    options = CompileOptions(side_by_side=together)
    return compile_network(read_network(path, outputs=outputs), accelerator, network.samples(8), options)


def advised(accelerator: Accelerator, program: Program) -> list[Advice]:
    return advice(accelerator, program, estimate_program(accelerator, program))


def seconds(accelerator: Accelerator, program: Program) -> float:
    """Of a sample in a stream, with the host."""
    return estimate_sample(accelerator, program, Resources()).seconds


def classifier(last: str = "Softmax") -> Network:
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(10, 8 * 144), transB=1)
    network.add(last)
    return network


def classifier_of_pixels() -> Network:
    """The host computes more of it than the calls of its operators take, which the samples of a start share."""
    network = Network(4, 24, 24)
    network.conv(16, 4, 3, pads=[1, 1, 1, 1])
    network.add("Softmax", axis=1)
    return network


def test_a_final_softmax_is_what_its_absence_saves(tmp_path: Path) -> None:
    whole = made(classifier_of_pixels(), tmp_path, DENSE)
    first = advised(DENSE, whole)[0]
    assert first.change.endswith("a class needs none: --outputs class")
    program = made(classifier_of_pixels(), tmp_path, DENSE, ["class"])
    before, after = seconds(DENSE, whole), seconds(DENSE, program)
    assert first.share == pytest.approx(1 - after / before, rel=0.01)
    spent = f"{1e6 * (before - after):.0f} of {1e6 * before:.0f} us"
    assert first.cost == f"the final Softmax on the host costs {spent} a sample"
    assert not any("host" in one.cost for one in advised(DENSE, program))


def test_operators_of_the_host_in_the_middle_are_named_with_the_functions_that_spare_them(tmp_path: Path) -> None:
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.add("Tanh")
    network.conv(4, 8, 3)
    program = made(network, tmp_path, DENSE)
    first = advised(DENSE, program)[0]
    assert first.cost == "the host computes Tanh"
    assert first.change == "an accelerator with `functions` tanh computes Tanh on the array"
    flows = load_accelerator("pynq_z2_flows")
    assert not any("host" in one.cost for one in advised(flows, made(network, tmp_path, flows)))
    estimate = estimate_program(DENSE, program)
    host = seconds(DENSE, program) - estimate.stream_seconds
    assert first.share == pytest.approx(host / seconds(DENSE, program))


def test_what_no_function_replaces_is_left_to_the_list_of_operators(tmp_path: Path) -> None:
    costs = [one for one in advised(DENSE, made(attention_network(), tmp_path, DENSE)) if "host" in one.cost]
    assert costs[0].cost == "the host computes Transpose, Softmax"
    assert costs[0].change == "bfpga operators lists what the array computes in their place"


def test_weights_that_come_again_cost_what_a_larger_memory_saves(tmp_path: Path) -> None:
    network = Network(256)
    for _ in range(3):
        network.add("Gemm", network.last, network.weights(256, 256), transB=1)
    small = KernelConfig(columns=2, rows=8, lanes=4, weight_words=512)
    few, many = (accelerator_around(replace(small, weight_words=words)) for words in (512, 8192))
    program = made(network, tmp_path, few)
    found = next(one for one in advised(few, program) if "words of weights" in one.cost)
    assert found.cost.startswith(f"{3 * 256 * 256 // 32:,} words of weights come again for every sample, most of Gemm")
    assert "more `weight_words` than 512" in found.change
    saved = 1 - seconds(many, made(network, tmp_path, many)) / seconds(few, program)
    assert saved - 0.03 < found.share <= saved  # a little less, since the layers stay cut into parts
    assert not any("words of weights" in one.cost for one in advised(many, made(network, tmp_path, many)))


def test_maps_that_leave_the_chip_cost_what_a_larger_memory_saves(tmp_path: Path) -> None:
    network = Network(8, 32, 32)
    for _ in range(3):
        network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    small = KernelConfig(columns=8, rows=8, lanes=4)
    few, many = (accelerator_around(replace(small, activation_words=words)) for words in (256, 8192))
    program = made(network, tmp_path, few)
    found = next(one for one in advised(few, program) if "leave the chip" in one.cost)
    assert "more `activation_words` than 256" in found.change
    saved = 1 - seconds(many, made(network, tmp_path, many)) / seconds(few, program)
    assert 0.5 * saved < found.share <= saved  # a larger memory saves the rows that two strips compute, too
    assert not any("leave the chip" in one.cost for one in advised(many, made(network, tmp_path, many)))


def test_one_pixel_keeps_one_column_busy_and_samples_side_by_side_fill_them(tmp_path: Path) -> None:
    network = Network(256)
    network.add("Gemm", network.last, network.weights(64, 256), transB=1)
    program = made(network, tmp_path, DENSE)
    first = advised(DENSE, program)[0]
    assert first.cost == "layers with one output pixel keep 1 of 12 columns busy, most in Gemm_0"
    assert first.change == "--side-by-side 12 computes 12 samples at once"
    estimate = estimate_program(DENSE, program)
    idle = estimate.layers[0].limits["idle tiles"]
    assert first.share == pytest.approx(idle / (DENSE.clock_mhz * 1e6) / seconds(DENSE, program))
    together = made(network, tmp_path, DENSE, together=12)
    assert seconds(DENSE, together) < 0.5 * seconds(DENSE, program)
    assert not any("busy" in one.cost for one in advised(DENSE, together))


def test_steps_of_a_recurrent_layer_wait_for_each_other_and_samples_side_by_side_share_the_time(tmp_path: Path) -> None:
    accelerator = load_accelerator("pynq_z2_transformer")
    network = recurrent_network("LSTM", 8, steps=6)
    program, together = (made(network, tmp_path, accelerator, together=count) for count in (1, 9))
    first = advised(accelerator, program)[0]
    assert first.cost == "layers wait for the results of the one before"
    assert first.change == "--side-by-side 9 computes 9 samples at once"
    assert seconds(accelerator, together) < (1 - first.share * 8 / 9 + 0.1) * seconds(accelerator, program)
    assert not any("wait" in one.cost for one in advised(accelerator, together))


def one_layer(channels: int, inputs: int, size: int, kernel: int = 3, **attributes: object) -> Network:
    network = Network(inputs, size, size)
    network.conv(channels, inputs, kernel, pads=[kernel // 2] * 4, **attributes)
    return network


@pytest.mark.parametrize(
    ("network", "config", "cost"),
    [
        (one_layer(32, 32, 24, group=32), {}, "layers whose groups have few channels (depthwise) use few lanes"),
        (one_layer(64, 5, 24, 1), {}, "layers whose input channels do not fill the 4 lanes"),
        (one_layer(9, 32, 24), {"rows": 16}, "layers whose output channels do not fill the 16 rows"),
        (one_layer(32, 32, 5), {"columns": 16}, "maps whose pixels do not fill the last group of 16 columns"),
    ],
    ids=["depthwise", "lanes", "rows", "columns"],
)
def test_the_cause_of_lanes_without_work_is_named(
    network: Network, config: dict[str, int], cost: str, tmp_path: Path
) -> None:
    accelerator = accelerator_around(replace(KernelConfig(columns=4, rows=8, lanes=4), **config))
    found = advised(accelerator, made(network, tmp_path, accelerator))
    assert any(one.cost.startswith(f"{cost}, most in Conv_0") for one in found)


def test_a_layer_that_fills_the_array_needs_no_advice(tmp_path: Path) -> None:
    accelerator = accelerator_around(KernelConfig(columns=8, rows=8, lanes=4))
    assert advised(accelerator, made(one_layer(64, 64, 32), tmp_path, accelerator)) == []


def test_lines_are_few_the_largest_first_and_each_is_worth_it(tmp_path: Path) -> None:
    for network in (classifier(), attention_network(), one_layer(9, 3, 5)):
        found = advised(DENSE, made(network, tmp_path, DENSE))
        shares = [one.share for one in found]
        assert len(found) <= LINES
        assert shares == sorted(shares, reverse=True)
        assert all(WORTH <= share <= 1 for share in shares)
        assert all(one.text.startswith(f"{100 * one.share:.0f} % of the time: {one.cost}; ") for one in found)
