"""The space of a search: what it makes fits the board, and lies where the ready accelerators are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import with_cores
from bfpga.engines.interface.resource_units import scaled
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.estimate.energy import sample_joules
from bfpga.explore.candidate import unchecked_config
from bfpga.explore.limits import FULL, excess, largest_divisor, last_that, most_columns
from bfpga.explore.space import PARTS, Space
from bfpga.synthesis.resources import board_use

BOARD = load_board("pynq_z2")


@pytest.fixture
def space() -> Space:
    return Space(BOARD, BOARD.name, ("none", "relu"), judged=True, together=True, max_clock=142.857)


def test_the_most_columns_fit_and_one_more_does_not() -> None:
    config = load_accelerator("pynq_z2_mixed").config
    most = most_columns(config, BOARD)
    fitting = replace(config, columns=most + config.shift_columns)
    fits = estimate_resources(fitting).total
    more = estimate_resources(replace(fitting, columns=fitting.columns + 1)).total
    assert fits.lut <= FULL * BOARD.lut
    assert excess(fits, BOARD) <= 0 < excess(more, BOARD)


def test_divisors_and_limits_are_the_largest() -> None:
    assert [largest_divisor(12, limit) for limit in (1, 5, 7, 40)] == [1, 4, 6, 12]
    assert [last_that(lambda number, last=last: number <= last, 1, 128) for last in (1, 77, 128)] == [1, 77, 128]


def test_clocks_are_those_that_the_pll_makes_up_to_the_limit(space: Space) -> None:
    assert space.clocks[-1] == 142.857
    assert all(1000 / clock == pytest.approx(round(1000 / clock), abs=1e-3) for clock in space.clocks)


def test_ready_accelerators_have_a_place_in_the_space(space: Space) -> None:
    dense = load_accelerator("pynq_z2_dense")
    values = space.nearest(dense)
    config, _ = unchecked_config(space.candidate(values).described)
    same = ("rows", "lanes", "multiplier", "activation_words", "weight_words", "parameter_rows")
    assert all(getattr(config, name) == getattr(dense.config, name) for name in same)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_as_many_cores_as_asked_for_fit_with_their_columns(space: Space, cores: int) -> None:
    values = {**space.nearest(load_accelerator("tiny")), "cores": cores, "fill": PARTS}
    candidate = space.candidate(values)
    accelerator = candidate.accelerator()
    assert accelerator.cores == candidate.cores == cores
    assert excess(board_use(accelerator).total, BOARD) <= 0
    # One column more in each of them does not fit.
    more = estimate_resources(replace(accelerator.config, columns=accelerator.config.columns + 1)).total
    assert excess(scaled(more, cores), BOARD) > 0
    assert ("cores" in candidate.described) == (cores > 1)


def test_arrays_of_four_products_a_block_have_what_those_need(space: Space) -> None:
    """Even columns, in even blocks; with mantissas of more than 5 bits two share a block."""
    chance = random.Random(3)
    values = {**space.nearest(load_accelerator("pynq_z2_dense")), "multiplier": "dsp_quad"}
    varied = ("fill", "lanes", "hop_columns", "row_turns", "shift_columns")
    drawn = [{key: chance.choice(space.choices[key]) for key in varied} for _ in range(60)]
    quads = [space.candidate({**values, **one, "mantissa_bits": 4}).accelerator().config for one in drawn]
    assert {config.multiplier for config in quads} == {"dsp_quad"}
    assert len({config.columns for config in quads}) > 5
    assert space.candidate({**values, "mantissa_bits": 8}).accelerator().config.multiplier == "dsp_packed"


def test_several_cores_are_found_again_in_the_space(space: Space) -> None:
    assert space.nearest(with_cores(load_accelerator("tiny"), 2))["cores"] == 2


def test_neighbours_differ_in_one_to_three_values_of_the_space(space: Space) -> None:
    values = space.nearest(load_accelerator("pynq_z2_dense"))
    chance = random.Random(1)
    for _ in range(50):
        near = space.neighbour(values, chance)
        assert 1 <= sum(near[key] != values[key] for key in near) <= 3
        assert all(near[key] in choices for key, choices in space.choices.items())


def test_energy_grows_with_time_size_and_bytes() -> None:
    dense, tiny = (estimate_resources(load_accelerator(name).config).total for name in ("pynq_z2_dense", "tiny"))
    least = sample_joules(tiny, BOARD, 100.0, 1e-3, 0)
    assert least < sample_joules(dense, BOARD, 100.0, 1e-3, 0) < sample_joules(dense, BOARD, 142.0, 1e-3, 0)
    assert least < sample_joules(tiny, BOARD, 100.0, 1e-3, 1e6) < sample_joules(tiny, BOARD, 100.0, 2e-3, 1e6)
