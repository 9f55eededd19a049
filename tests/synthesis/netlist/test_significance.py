"""Bits of values that are said to repeat a sign or to be zero do so, whatever the inputs."""

from __future__ import annotations

from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_graphs import RandomBody

from bfpga.synthesis.netlist.interpret import iterate, signed
from bfpga.synthesis.netlist.significance import significant_bits


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=drawn(40), deadline=None)
def test_values_keep_to_their_significant_bits(seed: int) -> None:
    made = RandomBody(seed, operations=80, widest=70)
    initial, invariants, reads = made.inputs(3)
    state = tuple(initial)
    bits = significant_bits(made.body)
    for given_reads in reads:
        outcome = iterate(made.body, state, invariants, given_reads)
        for operation, value, known in zip(made.body.operations, outcome.values, bits, strict=True):
            if operation.width:
                assert value < 1 << known.unsigned, operation
                assert -(1 << known.signed - 1) <= signed(value, operation.width) < 1 << known.signed - 1, operation
        state = outcome.state
