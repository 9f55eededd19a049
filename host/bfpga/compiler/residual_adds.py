"""Residual connections in the layers before them: a product adds the second tensor to its sums.

An addition that alone reads the results of a convolution costs a layer of its own and a rounding. In a kernel with
``residual_adds`` the product takes the other operand into its accumulators instead (docs/kernel.md), so that the sum is
rounded once. What is fused is chosen among finished nodes: exponents of the weights and of the operands decide whether
the accumulators have room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.host import ARRAY
from bfpga.compiler.nodes import Nodes, StageNodes
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.schedule.measuring import histogram_base, measures
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.contract.program import ArrayNode, Node, TensorSpec, values_read

#: Bits of an accumulator that an aligned operand leaves free: one for the sign, one to spare.
SPARE_BITS = 2


def with_residual_adds(nodes: Nodes, graph: Graph, config: KernelConfig) -> Nodes:
    """The nodes with additions in the products before them, where the kernel has that and the numbers allow it."""
    if not config.residual_adds:
        return nodes
    fusion = _Fusion(nodes, graph, config)
    result: list[Node] = []
    stages = []
    for item in nodes.stages:
        part, first = nodes.nodes[item.first : item.last], len(result)
        array = [node for node in part if isinstance(node, ArrayNode)]
        result += fusion.fused(array) if item.stage.kind == ARRAY else part
        stages.append(StageNodes(item.stage, first, len(result)))
    tensors = {name: spec for name, spec in nodes.tensors.items() if name not in fusion.gone}
    return replace(nodes, nodes=result, tensors=tensors, stages=tuple(stages))


class _Fusion:
    """Finds the additions of a network that go into the products before them. gone: tensors that nothing writes now."""

    def __init__(self, nodes: Nodes, graph: Graph, config: KernelConfig) -> None:
        self.tensors, self.exponents, self.graph, self.config = nodes.tensors, nodes.exponents, graph, config
        self.readers = Counter(name for node in nodes.nodes for name in values_read(node))
        self.readers.update(graph.outputs)
        self.writers = Counter(node.output for node in nodes.nodes if isinstance(node, ArrayNode))
        self.gone: set[str] = set()

    def fused(self, nodes: Sequence[ArrayNode]) -> list[ArrayNode]:
        """A stage's nodes in an order in which each follows what it reads."""
        result: list[ArrayNode] = []
        for node in nodes:
            result.append(node)
            made = {other.output: place for place, other in enumerate(result)}
            # Of two products the later one adds the other's results.
            for name in sorted(node.inputs, key=lambda name: -made.get(name, -1)):
                product = result[made[name]] if name in made else None
                if product is None or not self._joins(node, product, name):
                    continue
                second = node.inputs[1 - node.inputs.index(name)]
                fused = self._together(product, node, second)
                result.pop()
                if made.get(second, -1) < made[name]:
                    result[made[name]] = fused
                else:  # what it adds is made later
                    del result[made[name]]
                    result.append(fused)
                self.gone.add(name)
                break
        return result

    def _joins(self, node: ArrayNode, product: ArrayNode, name: str) -> bool:
        """Whether an addition goes into the product whose results ``name`` are one of its operands."""
        return (
            _adds_alone(node)
            and _takes_tensor(product)
            and self.readers[name] == self.writers[name] == 1
            and not self.graph.ends_a_layer(name)
            and product.covers(self.tensors[name])
            and self._alike(node)
            and self._has_room(product, node.inputs[1 - node.inputs.index(name)])
        )

    def _alike(self, node: ArrayNode) -> bool:
        """Whether the tensors of an addition hold the values of the same places in the same way."""
        first, *others = (self.tensors[name] for name in node.inputs)
        size = (node.window.output_height, node.window.output_width, node.channels)
        same = all(_held(spec) == _held(first) for spec in (*others, self.tensors[node.output]))
        return same and first.parts == 1 and (first.height, first.width, first.channels) == size

    def _has_room(self, product: ArrayNode, second: str) -> bool:
        """Whether the accumulators hold the second operand with a bit to spare, and no fewer bits of it than an
        addition does."""
        known, form = self.exponents, self.config.format
        if any(name not in known for name in (*product.inputs, second)):
            return False
        exponents = np.asarray(0 if product.weight_exponents is None else product.weight_exponents)
        left = known[second] - (known[product.inputs[0]] + exponents)
        coarser = max(known.get(product.output, known[second]) - known[second], 0)
        most = self.config.accumulator_bits - form.mantissa_bits - SPARE_BITS
        return -coarser <= int(left.min()) <= int(left.max()) <= most

    def _together(self, product: ArrayNode, node: ArrayNode, second: str) -> ArrayNode:
        """The product that adds: it writes what the addition wrote."""
        fused = replace(
            product, inputs=(*product.inputs, second), output=node.output, channel_offset=node.channel_offset,
            function=node.function, function_argument=node.function_argument,
            function_exponent=node.function_exponent, function_first=False, policy=node.policy, adds_second=True,
            macs=product.macs + node.macs,
        )  # fmt: skip
        fused.policy.base = histogram_base(fused, self.config)
        return fused


def _adds_alone(node: ArrayNode) -> bool:
    """Whether a node is a plain addition of two tensors whose exponent nothing measures before."""
    scaled = node.weight_exponents is not None or node.bias is not None or node.negate_second
    two = node.kind == "sum" and len(set(node.inputs)) == len(node.inputs) == 2
    return two and not scaled and not node.window.spread and not node.policy.inherit and not measures(node.policy)


def _takes_tensor(node: ArrayNode) -> bool:
    """Whether a node is a product of weights that are known, and nothing happens to its sums yet."""
    plain = node.kind == "gemm" and len(node.inputs) == 1 and not node.factors and not node.uniform_weights
    return plain and node.function is Function.NONE


def _held(spec: TensorSpec) -> tuple[object, ...]:
    """How a tensor holds values: of additions all tensors do it alike."""
    return spec.height, spec.width, spec.channels, spec.remainder, spec.factor, spec.channel_shift, spec.parts
