"""Products of a kernel with a systolic array and a skip array of activations: which of the two computes each layer.

The rule `dispatch` of a layer (SC R11-R13) makes a threshold: with at most so many values of its input other than zero
the skip array computes it. `cost`: where it takes fewer cycles; `majority`: where half of the values or more are zeros;
`band`: where enough are zeros, cycles decide between its limits. A layer whose input may be on either side gets both
ways, and the count of the layer that writes its input decides for each sample (contract/predicates.py). Where nothing
counts the input, the zeros of the calibration samples decide for all samples.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import COMPUTING, Flag
from bfpga.contract.predicates import Predicate, count, run_by
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, TensorSpec
from bfpga.engines.kernel.cycles import occupied_cycles
from bfpga.engines.skip_array.two_arrays import may_choose, on_skip_array
from bfpga.errors import ConfigurationError

#: Shares that are equal differ by less, from rounding.
SAME_SHARE = 1e-12


@dataclass(frozen=True)
class ArrayClocks:
    """Cycles of layers that read one tensor of ``size`` values on either array.

    layers: with each node its operations, as the systolic array computes them.
    """

    config: KernelConfig
    size: int
    layers: Sequence[tuple[ArrayNode, Sequence[KernelOperation]]]

    @property
    def dense(self) -> int:
        """Of the systolic array, whatever the values are."""
        return sum(occupied_cycles(self.config, item.descriptor) for _, own in self.layers for item in own)

    def skipping(self, values: int) -> int:
        """Of the skip array, with so many values other than zero."""
        total = 0
        for node, own in self.layers:
            met = replace(node, input_share=self._share(node, values))
            total += sum(
                occupied_cycles(self.config, on_skip_array(self.config, met, item.descriptor)) for item in own
            )
        return total

    def _share(self, node: ArrayNode, values: int) -> float:
        """Share of the products of the slowest groups: as far above the average as in the calibration samples."""
        unequal = node.input_share / node.input_density if node.input_density else 1.0
        return min(1.0, values / self.size * max(1.0, unequal))

    def threshold(self, options: LayerOptions) -> int:
        """The most values with which the skip array computes the layers by their rule; -1: it never does."""
        if options.dispatch == "majority":
            return self.size // 2
        if options.dispatch == "cost":
            return self._faster()
        sparse = math.floor(self.size * ((100 - options.band_sparse) / 100 + SAME_SHARE))
        dense = math.ceil(self.size * ((100 - options.band_dense) / 100 - SAME_SHARE))
        return min(max(self._faster(), sparse), dense - 1)

    def _faster(self) -> int:
        """The most values with which the skip array is faster; -1: it never is."""
        least, most, dense = -1, self.size, self.dense
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (middle, most) if self.skipping(middle) < dense else (least, middle - 1)
        return least

    @property
    def gain(self) -> int:
        """Cycles between the best and the worst input."""
        return max(0, self.dense - self.skipping(0))


def dispatch_layers(
    starts: Sequence[LaunchStep],
    nodes: Sequence[ArrayNode],
    tensors: Mapping[str, TensorSpec],
    config: KernelConfig,
    options: CompileOptions,
) -> int:
    """Give the products of a program their arrays; returns ``Program.choices``. Nothing on kernels with one array."""
    if not config.array.has_both:
        return 0
    operations = defaultdict(list)
    for start in starts:
        for operation in start.operations:
            if operation.descriptor.operation in COMPUTING:
                operations[operation.layer].append(operation)
    asked = {node.name: options.layer(node.name, node.output) for node in nodes}
    free = [
        node for node in nodes if asked[node.name].engine == "auto" and _is_free(config, operations[node.name])
    ]
    readers: dict[str, list[ArrayNode]] = defaultdict(list)
    for node in free:
        readers[node.inputs[0]].append(node)
    found = {
        name: ArrayClocks(config, spec.height * spec.width * spec.channels, [(n, operations[n.name]) for n in own])
        for name, own in readers.items()
        for spec in (tensors[name],)
    }
    sources = _sources(nodes, operations)
    counted = sorted(
        (
            name for name in found
            if name in sources and _counts_whole(starts, sources[name].name, {node.name for node in readers[name]})
        ),
        key=lambda name: -found[name].gain,
    )  # fmt: skip
    split: list[ArrayClocks] = []
    choices = 0
    for name in [*counted, *(name for name in found if name not in counted)]:
        clocks = found[name]
        threshold = clocks.threshold(_common_rule(name, [(node.name, asked[node.name]) for node, _ in clocks.layers]))
        more = any(_expected(node) - threshold / clocks.size > SAME_SHARE for node, _ in clocks.layers)
        if name in counted and -1 < threshold < clocks.size and len(split) < config.count_registers:
            split.append(clocks)
            choices |= int(more) << len(split)
            for operation in operations[sources[name].name]:
                if not operation.descriptor.flags & Flag.MEASURE:
                    count(operation.descriptor, len(split), threshold)
        elif not more:
            _fix(clocks)
    for index, clocks in enumerate(split):
        _split(starts, clocks, register=1 + index)
    return choices


def _common_rule(tensor: str, asked: Sequence[tuple[str, LayerOptions]]) -> LayerOptions:
    """The options of layers that read one tensor, whose values are counted once; asked: of each by its name.

    Raises:
        ConfigurationError: their rules differ.
    """
    (first, common), *others = asked
    for layer, options in others:
        if _rule(options) != _rule(common):
            raise ConfigurationError(
                f"layers {first} and {layer} read {tensor}, whose values are counted once, and have different rules: "
                f"{_rule(common)} and {_rule(options)}; give both the same dispatch, or one of them an engine"
            )
    return common


def _rule(options: LayerOptions) -> str:
    """A rule with the limits that it uses."""
    bands = f" (band_dense {options.band_dense:g}, band_sparse {options.band_sparse:g})"
    return options.dispatch + (bands if options.dispatch == "band" else "")


def _expected(node: ArrayNode) -> float:
    """Share of the values of a layer's input that are not zero; all of them where none was measured."""
    return 1.0 if node.input_density is None else node.input_density


def _is_free(config: KernelConfig, own: Sequence[KernelOperation]) -> bool:
    return bool(own) and all(may_choose(config, item.descriptor) and not item.first_only for item in own)


def _counts_whole(starts: Iterable[LaunchStep], source: str, readers: set[str]) -> bool:
    """Whether a layer is stored as a whole before others that read it begin, in the same start.

    A register's report is of the sample that its start computes; of a chain, strip by strip, it has a part alone.
    """
    computing = [
        [item.layer for item in start.operations if item.descriptor.operation in COMPUTING] for start in starts
    ]
    found = [layers for layers in computing if {source, *readers}.intersection(layers)]
    if len(found) != 1:
        return False
    (layers,) = found
    begins = next((number for number, layer in enumerate(layers) if layer in readers), len(layers))
    return source not in layers[begins:]


def _sources(nodes: Sequence[ArrayNode], operations: Mapping[str, Iterable[KernelOperation]]) -> dict[str, ArrayNode]:
    """The layer that writes a tensor, for tensors that one layer writes."""
    writers = Counter(node.output for node in nodes)
    return {node.output: node for node in nodes if writers[node.output] == 1 and operations.get(node.name)}


def _fix(clocks: ArrayClocks) -> None:
    """The skip array, for all samples."""
    for node, own in clocks.layers:
        for item in own:
            item.descriptor = on_skip_array(clocks.config, node, item.descriptor)


def _split(starts: Iterable[LaunchStep], clocks: ArrayClocks, register: int) -> None:
    """Both ways: more values than the threshold are the systolic array's."""
    nodes = {node.name: node for node, _ in clocks.layers}
    for start in starts:
        result: list[KernelOperation] = []
        for operation in start.operations:
            result.append(operation)
            node = nodes.get(operation.layer)
            if node is not None and operation.descriptor.operation in COMPUTING:
                result.append(_skipping(clocks.config, node, operation, register))
        start.operations = result


def _skipping(
    config: KernelConfig, node: ArrayNode, operation: KernelOperation, register: int
) -> KernelOperation:
    """The way of an operation on the skip array; the operation itself becomes the other one."""
    second = on_skip_array(config, node, operation.descriptor)
    run_by(operation.descriptor, Predicate(register))
    run_by(second, Predicate(register, unless=True))
    return replace(operation, descriptor=second)
