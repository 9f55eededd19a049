"""The sparse cluster: units that take one non-zero activation each and all weights of a kernel at once."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.engines.beside.engine import BesideEngine, Header, InputCycles
from bfpga.engines.beside.header import header_numbers
from bfpga.engines.sparse_cluster.constraints import findings
from bfpga.engines.sparse_cluster.cycles import complete, counter, cycle_shares, measure, most_clocks, unit_shares
from bfpga.engines.sparse_cluster.descriptors import descriptor, write_cycles
from bfpga.engines.sparse_cluster.fit import refusals
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.random_cases import RANDOM
from bfpga.engines.sparse_cluster.resources import resources
from bfpga.engines.sparse_cluster.streams import stream, stream_form
from bfpga.engines.sparse_cluster.tiles import strip_rows, tiles


def header(config: SystolicConfig) -> Header:
    """The numbers that ``sparse_cluster/types.hpp`` reads."""
    return Header(
        "Sparse cluster: units of `kernel` x `kernel` products, one non-zero activation each a clock",
        header_numbers("cluster", config.numbers_of(ClusterNumbers), "units"),
        "ClusterMultiplier",
    )


def zero_group(config: SystolicConfig) -> tuple[int, int]:
    """A kernel without a weight in a word of channels takes none of its non-zero activations' cycles."""
    return 1, config.lanes


SPARSE_CLUSTER = BesideEngine(
    name=ClusterNumbers.engine,
    title="sparse cluster",
    colour="#009e73",
    operations=(Operation.SPARSE,),
    supported=("convolution", "fully connected"),
    skips="inputs",
    refusals=refusals,
    findings=findings,
    resources=resources,
    numbers=ClusterNumbers,
    header=header,
    tiles=tiles,
    strip_rows=strip_rows,
    descriptor=descriptor,
    complete=complete,
    stream=stream,
    stream_form=stream_form,
    write_cycles=write_cycles,
    cycle_shares=cycle_shares,
    random=RANDOM,
    zero_group=zero_group,
    by_inputs=InputCycles(counter, most_clocks, measure, unit_shares),
)
