"""Accumulators kept in the activation memory and in the host's memory: flows 3 and 4 for every layer (FP R24)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import drawn, each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import WIDE_MEMORY
from position_programs import computing, dynamic, emulated, one_convolution, operations, random_flows, samples

from bfpga.contract.descriptor import Flag
from bfpga.contract.program import Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import ModelError
from bfpga.program.cycles import program_cycles
from bfpga.program.flow_listing import flow_choices, flow_rows, kept_places
from bfpga.program.listing import listing

#: Layers whose accumulators fit beside their operands, those of the host in pieces of rows, and of one row in blocks.
LAYERS: dict[str, dict[str, Any]] = {
    "memory": {"size": (6, 4)},
    "host": {"size": (40, 4)},
    "strips": {"size": (17, 12), "inputs": 24},
    "blocks": {"size": (3, 20), "inputs": 20, "channels": 30},
}


def program_of(layer: str, flow: str, **fields: Any) -> Program:
    program = one_convolution(dynamic(flow, 3, 1, rule="lead"), replace(WIDE_MEMORY, **fields), **LAYERS[layer])
    return replace(program, accelerator="kernel", digest="0" * 64)


@pytest.fixture(scope="module")
def kernel() -> Iterator[CSimulation]:
    opened = CSimulation(WIDE_MEMORY, "native")
    yield opened
    opened.close()


def same(program: Program, kernel: CSimulation, inputs: dict[str, Any], trace: bool = False) -> None:
    """Bits, exponents, counters, status and clocks of the emulator."""
    found = StreamingDevice(program, kernel, "csim").run(inputs, trace=trace)
    mismatch = first_mismatch(program, emulated(program, inputs), found)
    assert mismatch is None, str(mismatch)


@pytest.mark.parametrize(("layer", "flow"), each_once(list(LAYERS), ["keep", "keep_sampled"]))
def test_a_layer_that_no_buffer_holds_keeps_in_memory_or_by_the_host(
    kernel: CSimulation, layer: str, flow: str
) -> None:
    """And has the bits of the layer that is computed twice."""
    with pytest.raises(ModelError, match="more wide_words, or an accelerator with wide_memory"):
        program_of(layer, flow, wide_memory=False)
    program = program_of(layer, flow)
    inputs = samples(program)
    same(program, kernel, inputs)
    same(program, kernel, inputs, trace=True)
    twice = emulated(program_of(layer, "two_pass" if flow == "keep" else "two_pass_sampled"), inputs).tensors["y"]
    kept = emulated(program, inputs).tensors["y"]
    np.testing.assert_array_equal(kept.mantissa, twice.mantissa)
    np.testing.assert_array_equal(kept.exponent, twice.exponent)


@pytest.mark.parametrize(("layer", "place", "starts"), [("memory", "memory", 1), ("host", "host", 2)])
def test_what_the_host_keeps_is_stored_in_one_start_and_loaded_in_the_next(
    layer: str, place: str, starts: int
) -> None:
    """Every piece once; nothing is multiplied in the second start, and the listing says where the sums are."""
    program = program_of(layer, "keep")
    assert len(program.steps) == starts
    moved = [o.transfer.tensor for o in operations(program) if o.transfer and o.transfer.tensor not in ("t0", "y")]
    names = [name for name in program.tensors if name not in ("t0", "y")]
    assert moved == names * 2
    assert bool(names) == (place == "host")
    keep, take = ([d for d in computing(program) if d.flags & flag] for flag in (Flag.KEEP, Flag.KEPT))
    assert len(keep) == len(take) == max(1, len(names))
    assert all(d.flags & Flag.WIDE for d in keep + take)
    outputs = 40 * 4 * 9 if layer == "host" else 6 * 4 * 9
    assert sum(d.output_pixels * d.output_rows for d in take) == outputs
    assert kept_places(program) == {"y": place}
    (choice,) = flow_choices(program)
    assert (choice["flow"], choice["kept"]) == ("keep", place)
    (row,) = flow_rows(program)
    assert row[1] == {"memory": "keep, in activation memory", "host": "keep, in the host's memory"}[place]
    assert row[1] in listing(program)
    assert choice["cycles"] == program_cycles(program).layers["y"].total


def test_the_buffer_comes_first_and_auto_never_leaves_the_chip() -> None:
    assert kept_places(program_of("memory", "keep", wide_words=64)) == {"y": "buffer"}
    assert set(kept_places(program_of("host", "auto")).values()) <= {"memory"}
    assert "keep" in flow_choices(program_of("memory", "auto"))[0]["compared"]


def test_memory_that_holds_no_row_of_accumulators_is_refused_with_a_remedy() -> None:
    with pytest.raises(ModelError, match="and with the accumulators that its flow keeps"):
        program_of("blocks", "keep", activation_words=72)


@settings(max_examples=drawn(25))
@given(st.integers(0, 1 << 30))
def test_random_layers_have_the_bits_of_the_emulator(kernel: CSimulation, seed: int) -> None:
    """Any window, groups, function, rule, sample and flow, in any order of the processes."""
    rng = np.random.default_rng(seed)
    program = random_flows(rng, WIDE_MEMORY)
    kernel.disturb(seed % 3)
    try:
        same(program, kernel, samples(program, 2, seed))
    finally:
        kernel.disturb(0)


@pytest.mark.board
def test_a_virtual_board_keeps_as_the_emulator_does() -> None:
    """In activation memory, and by the host over two starts a sample."""
    pytest.importorskip("pynq")
    from bfpga.verify.virtual_boards import VirtualBoards

    boards = VirtualBoards()
    try:
        for layer in ("memory", "host"):
            program = program_of(layer, "keep")
            inputs = samples(program, 3)
            found = boards.open(program).run(inputs)
            expected = emulated(program, inputs)
            assert first_mismatch(program, expected, found) is None
            assert found.cycles == expected.cycles
    finally:
        boards.close()
