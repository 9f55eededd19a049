"""Whether layers can be cut small enough for an array's memories, judged before their numbers are chosen."""

from __future__ import annotations

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.kernel.regions import region_words
from bfpga.engines.sparse_cluster.kernel_parts import words_of_block
from bfpga.engines.sparse_cluster.unit_maps import refusal

#: Layers whose weights are made at run time.
COMPUTED_WEIGHTS = ("matmul", "scale")
NO_ENTRIES = (
    "its second operand is computed, and a skip array multiplies by weights that the compiler has stored as entries; "
    "an accelerator with a systolic array computes it"
)
ELSEWHERE = "an accelerator with a systolic array computes it"
NO_STEPS = (
    "its second operand is computed, and a sparse cluster, or a tile, takes weights that the compiler stores; "
    f"{ELSEWHERE}"
)


def oversized_layers(lowered: Lowered, config: KernelConfig) -> dict[str, str]:
    """Operators whose layers need more memory than one output row's strip leaves, each with the reason."""
    result = {}
    for layer in lowered.layers:
        refused = _refused(layer, lowered, config)
        if refused:
            result[layer.operators[0].name] = refused
            continue
        words = _smallest_matmul(layer, config) if layer.kind == "matmul" else _smallest_strip(layer, lowered, config)
        if words > config.activation_words:
            reason = f"one row of its output needs {words} words of activation memory, there are "
            result[layer.operators[0].name] = reason + str(config.activation_words)
        elif layer.kind == "matmul" and _matmul_block(layer, config) > config.weight_words:
            reason = f"one row block of its operand needs {_matmul_block(layer, config)} weight words, there are "
            result[layer.operators[0].name] = reason + str(config.weight_words)
        elif layer.kind == "matmul" and layer.product[2] > config.terms_limit(biased=False):
            reason = f"sums of {layer.product[2]} products do not fit accumulators of {config.accumulator_bits} bits"
            result[layer.operators[0].name] = f"{reason}; {config.terms_limit(biased=False)} do"
    return result


def _refused(layer: Layer, lowered: Lowered, config: KernelConfig) -> str:
    """Why an array that skips zeros does not compute a layer, whatever its memories; nothing if it does."""
    if layer.kind in COMPUTED_WEIGHTS:
        return NO_ENTRIES if config.array.stores_entries else NO_STEPS if config.array.reads_maps else ""
    if config.array.reads_maps and layer.kind == "gemm":
        source = lowered.tensors[layer.inputs[0]]
        words = words_of_block(source.channels, layer.channels, layer.groups, config)
        reason = refusal(layer.window, source.height, source.width, words, config)
        return f"{reason}; {ELSEWHERE}" if reason else ""
    return ""


def _smallest_strip(layer: Layer, lowered: Lowered, config: KernelConfig) -> int:
    """Words in a bank that one output row and the input rows it reads take, pitches at their largest."""
    output = lowered.tensors[layer.output]
    total = region_words(config, 1, output.width, output.width, output.channels)
    for name in dict.fromkeys(layer.on_array):
        source = lowered.tensors[name]
        window = layer.window
        reach = (window.kernel_height - 1) * window.dilation_y + 1
        rows = min(reach, source.height)
        total += region_words(config, rows, _widest(source, config), source.width, source.channels)
    return total


def _widest(source: ArrayTensor, config: KernelConfig) -> int:
    return source.width + config.banks - 1


def _smallest_matmul(layer: Layer, config: KernelConfig) -> int:
    _, _, inner, columns = layer.product
    return region_words(config, 1, 1, 1, inner) + region_words(config, 1, 1, 1, columns)


def _matmul_block(layer: Layer, config: KernelConfig) -> int:
    return -(-layer.product[2] // config.lanes)
