"""The zero-skip engine: every non-zero weight by itself on a whole tile of outputs."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.engines.beside.engine import BesideEngine, Header
from bfpga.engines.beside.header import header_numbers
from bfpga.engines.zero_skip.constraints import findings
from bfpga.engines.zero_skip.cycles import complete, cycle_shares
from bfpga.engines.zero_skip.descriptors import descriptor, write_cycles
from bfpga.engines.zero_skip.fit import refusals
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.engines.zero_skip.random_cases import RANDOM
from bfpga.engines.zero_skip.resources import resources
from bfpga.engines.zero_skip.streams import stream, stream_form
from bfpga.engines.zero_skip.tiles import strip_rows, tiles


def header(config: SystolicConfig) -> Header:
    """The numbers that ``zero_skip/operation.hpp`` reads."""
    return Header(
        "Zero-skip engine: one coefficient on a row of a tile, `lanes` x `rows_parallel` products a clock",
        header_numbers("zero_skip", config.numbers_of(ZeroSkipNumbers), "row_banks", "plane_words"),
        "ZeroSkipMultiplier",
    )


def zero_group(config: SystolicConfig) -> tuple[int, int]:
    """An input channel without a weight in a group of kernels is neither read nor decoded for these."""
    return config.numbers_of(ZeroSkipNumbers).kernels_in_flight, 1


ZERO_SKIP = BesideEngine(
    name=ZeroSkipNumbers.engine,
    title="zero-skip",
    colour="#e69f00",
    operations=(Operation.ZERO_SKIP,),
    supported=("convolution", "fully connected"),
    skips="weights",
    refusals=refusals,
    findings=findings,
    resources=resources,
    numbers=ZeroSkipNumbers,
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
)
