"""How units of a cluster share layers: what is counted, of each sample and map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from changed_kernels import changed
from cluster_configs import CLUSTER
from small_networks import Network, compiled

from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.report.partition import partitions
from bfpga.report.unit_shares import spread, unit_shares


def program(
    folder: Path, moves: int = 256, variant: str = "E", form: str = "overlap_add"
) -> tuple[Program, dict[str, np.ndarray]]:
    """Units of variant B have a piece each, those of E may share one."""
    network = Network(4, 14, 14)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    config = changed(CLUSTER, array_words=32, array_moves=moves, array_variant=variant, array_form=form)
    network.used_rows = 7  # all that is not zero lies above
    return compiled(network, folder, config), network.samples(3)


def test_every_value_that_is_not_zero_is_of_one_unit(tmp_path: Path) -> None:
    compiled_program, samples = program(tmp_path)
    traced = Emulator(compiled_program).run(samples, trace=True).tensors
    first, second = unit_shares(compiled_program, samples)
    mantissa = traced[compiled_program.nodes[1].inputs[0]].mantissa
    assert second.balanced.sum(axis=(1, 2)).tolist() == np.count_nonzero(mantissa, axis=(1, 2, 3)).tolist()
    assert first.equal.sum() == first.balanced.sum()
    assert first.balanced.shape == (3, 1, 4)


def test_units_that_share_a_piece_have_as_much_each(tmp_path: Path) -> None:
    compiled_program, samples = program(tmp_path)
    first, second = unit_shares(compiled_program, samples)
    assert first.pieces == second.pieces != ((2, 2),)
    assert spread(first.equal) > 1.9
    assert spread(first.balanced) < 1.1
    assert first.content()["pieces"] == [list(first.pieces[0])]
    drawn, _ = partitions(compiled_program, samples)
    assert drawn.taken
    down, across = first.pieces[0]
    assert drawn.sharers == 4 // (down * across)
    assert drawn.balanced.loads == first.balanced[0, 0].tolist()
    assert len(drawn.balanced.pieces) == 4
    assert len(set(drawn.balanced.pieces)) == down * across


def test_values_of_a_halo_are_of_several_units(tmp_path: Path) -> None:
    """SC R29: units with a halo compute more values than there are, and the picture shows what each of them reads."""
    apart, samples = program(tmp_path, variant="B")
    halo, _ = program(tmp_path, variant="B", form="halo")
    owned, read = unit_shares(apart, samples)[0], unit_shares(halo, samples)[0]
    assert (read.balanced.sum(axis=2) > owned.balanced.sum(axis=2)).all()
    drawn = partitions(halo, samples)[0]
    assert drawn.balanced.loads == read.balanced[0, 0].tolist()
    upper, lower = drawn.balanced.pieces[0], drawn.balanced.pieces[2]
    assert upper[1] - lower[0] == 2  # rows that both read


def test_moves_make_units_more_equal(tmp_path: Path) -> None:
    """SC R25, SC R56: values lie in the upper half, so equal pieces leave half of the units idle."""
    compiled_program, samples = program(tmp_path, variant="B")
    first, _ = unit_shares(compiled_program, samples)
    assert spread(first.equal) > 1.9
    assert spread(first.balanced) < 1.5
    assert first.moves.min() > 0
    content = first.content()
    assert content["spread"] == spread(first.balanced)
    assert max(content["occupancy"]) <= 1


def test_without_moves_pieces_stay(tmp_path: Path) -> None:
    compiled_program, samples = program(tmp_path, 0, "B")
    first, _ = unit_shares(compiled_program, samples)
    assert first.moves.max() == 0
    assert np.array_equal(first.equal, first.balanced)


def test_a_report_draws_pieces_before_and_after(tmp_path: Path) -> None:
    compiled_program, samples = program(tmp_path, variant="B")
    first, _ = partitions(compiled_program, samples)
    assert first.taken
    assert max(first.balanced.loads) < max(first.equal.loads)
    assert first.balanced.cycles < first.equal.cycles
    assert first.counts.shape == (14, 14)
