"""The behaviour of a systolic array, whose columns may shift or take taps from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import SHIFT_MODES, KernelConfig
from bfpga.contract.process_stream import ARRAY
from bfpga.contract.program import ArrayNode
from bfpga.contract.streams import WEIGHT_ORDER
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.streams import ordered_words, pack_weight_words, placed_weights
from bfpga.engines.kernel.word_engine import WordEngine
from bfpga.engines.systolic import shift_words
from bfpga.engines.systolic.constraints import hop_findings, multiplier_findings
from bfpga.engines.systolic.resources import DOT_TILES, array_dsp, tiles
from bfpga.engines.systolic.tap_reuse import tap_words


class SystolicEngine(WordEngine):
    """Weights are mantissas, words of shift units, or those of one tap with the taps of adjacent columns."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        assert isinstance(config.array, SystolicArray)
        yield from multiplier_findings(config)
        yield from hop_findings(config.array, config)

    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        return {ARRAY: dense + Resources(dsp=array_dsp(config))}

    def multiplier_dsp(self, config: KernelConfig) -> int:
        return array_dsp(config)

    def shift_tables(self, config: KernelConfig) -> int:
        return sum(part.lut for name, part in tiles(config).items() if name != DOT_TILES)

    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        if node.reuses_taps:
            return pack_weight_words(tap_words(node, config, m0, m1), config)
        if node.weight_format == "linear" or config.shift is None:
            return super().pack_weights(node, config, m0, m1)
        words = ordered_words(node, config, placed_weights(node, config, m0, m1), WEIGHT_ORDER)
        return pack_weight_words(shift_words.words(words, config.shift, SHIFT_MODES[node.weight_format]), config)


ENGINE = SystolicEngine()
