"""What an accelerator could reach at most: its array, its streams, the board's memory; and what it is built from."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator


@dataclass(frozen=True)
class Roofline:
    """Ceilings of an array. Rates in GB/s (1e9 bytes) and GMAC/s; MAC/byte is where both ceilings meet.

    ``macs_per_clock``: one product each tile and lane; ``format_macs``: what layers with weights of each format reach.
    ``weight_need``: bytes of weights the full array consumes a clock; ``weight_stream``: bytes a clock the weight
    stream delivers; the same for activations. The memory rate is the board's assumed one, over all streams together.
    """

    macs_per_clock: int
    format_macs: dict[str, int]
    gmac_s: float
    weight_need: float
    weight_stream: float
    weight_stream_gb_s: float
    activation_need: float
    activation_stream: float
    activation_stream_gb_s: float
    memory_gb_s: float

    @property
    def ridge_macs_per_byte(self) -> float:
        """Multiply-accumulates each streamed byte must serve to keep the array busy."""
        return self.gmac_s / min(self.weight_stream_gb_s, self.memory_gb_s)


def estimate_roofline(accelerator: Accelerator) -> Roofline:
    """Ceilings of the accelerator's array and of its streams at its clock."""
    config, board = accelerator.config, accelerator.board
    clocks = accelerator.clock_mhz * 1e6
    mantissa_bytes = config.format.container_bits / 8
    port_gb_s = board.port_bits / 8 * clocks / 1e9
    weight_stream, activation_stream = config.weight_stream_bits / 8, config.stream_bits / 8
    return Roofline(
        macs_per_clock=config.macs_per_clock,
        format_macs={
            name: config.macs_per_clock * config.active_columns(name) * config.block_rows(name)
            // (config.columns * config.rows)
            for name in config.weight_formats
        },
        gmac_s=config.macs_per_clock * clocks / 1e9,
        weight_need=config.weight_word_bits / 8,
        weight_stream=weight_stream,
        weight_stream_gb_s=min(weight_stream * clocks / 1e9, port_gb_s),
        activation_need=config.columns * config.lanes * mantissa_bytes,
        activation_stream=activation_stream,
        activation_stream_gb_s=min(activation_stream * clocks / 1e9, port_gb_s),
        memory_gb_s=board.assumed_gb_s,
    )
