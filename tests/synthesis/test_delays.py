"""Delays: every board has them, they are those of the reports, and what shares a LUT or a DSP slice costs once."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from loop_bodies import BodyBuilder
from pydantic import ValidationError

from bfpga.accelerator.boards import load_board
from bfpga.errors import ConfigurationError
from bfpga.synthesis.body import Opcode
from bfpga.synthesis.delays import Delays, delay_file, interpolate, technology_of

ZYNQ, ULTRASCALE = "xc7z020clg400-1", "xczu7ev-ffvc1156-2-e"
BOARDS = sorted(path.stem for path in (Path(__file__).parents[2] / "configs" / "boards").glob("*.yaml"))


def delays(b: BodyBuilder, part: str = ZYNQ, usable: float = 7.3) -> Delays:
    return Delays(b.body, technology_of(part), usable)


@pytest.mark.parametrize("board", BOARDS)
def test_every_board_has_delays(board: str) -> None:
    technology = technology_of(load_board(board).part)
    assert 0 < interpolate(technology.adder, 16) < 4


def test_an_unknown_part_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"xc7a35t.*xczu -2"):
        technology_of("xc7a35tcpg236-1")


def test_slower_grades_are_slower() -> None:
    adders = [interpolate(technology_of(part).adder, 24) for part in (
        ULTRASCALE, "xczu3eg-sbva484-1-i", "xck26-sfvc784-2LV-c", ZYNQ)]  # fmt: skip
    assert adders == sorted(adders)
    assert len(set(adders)) == 4


@pytest.mark.parametrize(("part", "width", "reported"), [
    (ZYNQ, 6, 1.82), (ZYNQ, 9, 1.82), (ZYNQ, 13, 1.67), (ZYNQ, 17, 2.10), (ZYNQ, 32, 2.55),
    (ULTRASCALE, 6, 0.70), (ULTRASCALE, 14, 0.76), (ULTRASCALE, 32, 0.88), (ULTRASCALE, 64, 1.14),
    (ULTRASCALE, 124, 1.47),
])  # fmt: skip
def test_adders_have_the_delays_of_the_reports(part: str, width: int, reported: float) -> None:
    b = BodyBuilder()
    total = b.add(Opcode.ADD, width, b.state(width), b.constant(1, width))
    assert delays(b, part).timing(total).first == pytest.approx(reported, abs=0.03)


def product(b: BodyBuilder, width: int, binding: str = "") -> int:
    factors = [b.add(Opcode.SEXT, 48, b.receive(b.stream(width))) for _ in range(2)]
    return b.add(Opcode.MUL, 48, *factors, binding=binding)


@pytest.mark.parametrize(("width", "binding", "fused"), [(16, "", True), (16, "fabric", False), (26, "", False)])
def test_a_product_and_its_sum_share_a_slice_if_it_takes_them(width: int, binding: str, fused: bool) -> None:
    b = BodyBuilder()
    result = product(b, width, binding)
    total = b.add(Opcode.ADD, 48, result, b.state(48))
    b.send(b.stream(48), total)
    table = technology_of(ZYNQ).multipliers
    found = delays(b)
    assert (found.timing(total).first == table.accumulate) == fused
    assert (found.timing(result) == table.multiply_add.timing()) == fused


def test_a_product_takes_registers_where_it_does_not_fit_the_clock() -> None:
    b = BodyBuilder()
    result = product(b, 32)
    b.send(b.stream(48), result)
    assert [delays(b, ZYNQ, usable).timing(result).latency for usable in (7.3, 6.95, 3.65)] == [0, 0, 4]


@pytest.mark.parametrize(("width", "latency"), [(32, 0), (40, 1), (64, 4)])
def test_a_product_of_many_slices_takes_five_clocks_at_any_period(width: int, latency: int) -> None:
    """At 10 ns, and in the slow clock of a part in which the widest of the reports would fit one clock."""
    b = BodyBuilder()
    result = b.add(Opcode.MUL, width, *(b.receive(b.stream(width)) for _ in range(2)))
    b.send(b.stream(width), result)
    assert delays(b).timing(result).latency == latency
    assert delays(b, ULTRASCALE, 20.0).timing(result).latency == (latency if latency > 1 else 0)


def test_a_product_with_a_small_constant_is_a_sum() -> None:
    b = BodyBuilder()
    value = b.receive(b.stream(32))
    for factor, adders in ((8, 0), (3, 1), (7, 1), (25, None)):
        result = b.add(Opcode.MUL, 32, value, b.constant(factor, 32))
        b.send(b.stream(32), result)
        expected = {0: 0.0, 1: interpolate(technology_of(ZYNQ).adder, 32)}
        assert (delays(b).timing(result).first == expected.get(adders)) == (adders is not None), factor


def test_logic_is_grouped_while_it_fits_a_lut() -> None:
    b = BodyBuilder()
    inputs = [b.invariant(1, f"x{k}") for k in range(8)]
    chain = [inputs[0]]
    for other in inputs[1:]:
        chain.append(b.add(Opcode.AND, 1, chain[-1], other))
    b.send(b.stream(1), chain[-1])
    sources = delays(b).groups.sources
    assert set(sources[chain[5]]) == set(inputs[:6])
    assert len(sources[chain[6]]) <= 6
    assert chain[5] in sources[chain[6]] or chain[4] in sources[chain[6]]


def test_what_two_use_is_no_part_of_either() -> None:
    b = BodyBuilder()
    x, y, z = (b.invariant(1, name) for name in "xyz")
    shared = b.add(Opcode.AND, 1, x, y)
    one, other = b.add(Opcode.OR, 1, shared, z), b.add(Opcode.XOR, 1, shared, z)
    for each in (one, other):
        b.send(b.stream(1), each)
    sources = delays(b).groups.sources
    assert shared in sources[one]
    assert shared in sources[other]


def test_a_chain_of_two_sums_is_a_ternary_adder() -> None:
    b = BodyBuilder()
    x, y, z = (b.receive(b.stream(32)) for _ in range(3))
    inner = b.add(Opcode.ADD, 32, x, y)
    total = b.add(Opcode.ADD, 32, inner, z)
    b.send(b.stream(32), total)
    found = delays(b)
    assert set(found.groups.sources[total]) == {x, y, z}
    assert found.timing(total).first == pytest.approx(4.37)


def test_memories_by_size_and_binding() -> None:
    b = BodyBuilder()
    memories = [b.memory(16, 8), b.memory(1024, 32), b.memory(1024, 32)]
    b.body.memories[2].implementation = "lutram"
    reads = [b.read(memory, b.counter(10)) for memory in memories]
    assert [delays(b).timing(read).last for read in reads] == [2.322, 3.254, 2.322]


@pytest.mark.parametrize(
    ("words", "expected"), [(4096, 1.20), (8192, 1.64), (16384, 1.64), (16385, 2.08), (65536, 2.96)]
)
def test_ultra_ram_is_slower_the_more_blocks_stand_behind_each_other(words: int, expected: float) -> None:
    """However narrow its words: 8,192 of 32 bits have the bits of one block, and take two."""
    b = BodyBuilder()
    memory = b.memory(words, 8)
    b.body.memories[0].implementation = "uram"
    read = b.read(memory, b.counter(17))
    assert delays(b, ULTRASCALE).timing(read).last == expected


def test_numbers_of_both_sizes_have_units_and_unknown_operations_are_named() -> None:
    b = BodyBuilder()
    sums = [b.add(Opcode.FLOAT, width, b.state(width), b.state(width), name="fadd") for width in (32, 64)]
    assert [delays(b, usable=3.65).timing(total).latency for total in sums] == [7, 15]
    unknown = b.add(Opcode.FLOAT, 32, sums[0], name="fsin")
    with pytest.raises(ConfigurationError, match=r"fsin.*fadd"):
        delays(b).timing(unknown)


def test_a_delay_without_a_source_is_refused() -> None:
    content = yaml.safe_load(files("bfpga.synthesis").joinpath("delays.yaml").read_text(encoding="utf-8"))
    content["technologies"]["zynq_7000_1"]["sources"].pop("adder")
    with pytest.raises(ValidationError, match="sources: adder missing"):
        type(delay_file()).model_validate(content)
