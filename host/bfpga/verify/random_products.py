"""Random products of two tensors: attention of any heads, of any tensors, or a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.contract.program import ArrayNode, OperandWeights, PolicySpec, TensorSpec, Window

#: Heads at most.
MOST_HEADS = 3


class Builder(Protocol):
    """A network that grows."""

    rng: np.random.Generator
    config: KernelConfig
    tensors: dict[str, TensorSpec]
    nodes: list[ArrayNode]

    def tensor(self, height: int, width: int, channels: int, exponent: int | None = None) -> str: ...
    def policy(self) -> PolicySpec: ...
    def function(self) -> tuple[Function, int, int]: ...


def add_products(builder: Builder, source: str) -> str:
    """Scores of a tensor with any other, now and then the sum of its pixels that these weigh; the last tensor."""
    rng, spec, lanes = builder.rng, builder.tensors[source], builder.config.lanes
    second = str(rng.choice(list(builder.tensors)))
    keys = builder.tensors[second]
    slices = list(_slices(spec.channels, keys.channels, lanes))
    if not slices:
        return source
    run = start, pixels = _run_of_pixels(rng, keys.height * keys.width)
    heads = int(rng.integers(1, MOST_HEADS + 1)) if spec.width == 1 else 1
    window = Window(output_height=spec.height, output_width=spec.width)
    scores = builder.tensor(spec.height, spec.width * heads, pixels)
    _heads(builder, (source, second), scores, heads, [
        (replace(window, first_x=head), 0, OperandWeights(True, terms, first, channel, start))
        for head, (first, channel, terms) in enumerate(slices[index] for index in rng.integers(0, len(slices), heads))
    ], pixels)  # fmt: skip
    if rng.random() < 0.3:
        return scores
    return _values(builder, scores, second, run, window, heads)


def _run_of_pixels(rng: np.random.Generator, count: int) -> tuple[int, int]:
    """The first one of pixels that weigh, and their number: mostly all of them."""
    if rng.random() < 0.7:
        return 0, count
    start = int(rng.integers(count))
    return start, int(rng.integers(start, count)) - start + 1


def _values(
    builder: Builder, scores: str, second: str, run: tuple[int, int], window: Window, heads: int
) -> str:  # fmt: skip
    """A run of the second tensor's pixels summed by scores, a slice of its channels in each head."""
    rng, keys, lanes = builder.rng, builder.tensors[second], builder.config.lanes
    words = -(-keys.channels // lanes)
    first = int(rng.integers(0, words))
    count = int(rng.integers(first + 1, words + 1)) - first
    channels = min(count * lanes, keys.channels - first * lanes)
    # Slices that end within a word leave no room for another one behind them.
    columns = range(heads) if channels % lanes == 0 else [int(rng.integers(heads))]
    output = builder.tensor(window.output_height, window.output_width, len(columns) * channels)
    operand = OperandWeights(False, run[1], 0, first * lanes, run[0])
    _heads(builder, (scores, second), output, len(columns), [
        (replace(window, pad_left=-column), place * channels, operand) for place, column in enumerate(columns)
    ], channels)  # fmt: skip
    return output


def _heads(
    builder: Builder, inputs: tuple[str, str], output: str, heads: int,
    parts: list[tuple[Window, int, OperandWeights]], channels: int,
) -> None:  # fmt: skip
    """A product for each head; several share one exponent."""
    rng = builder.rng
    shared = PolicySpec(exponent=int(rng.integers(-10, 1)))
    for window, offset, operand in parts:
        function, argument, exponent = builder.function()
        policy = builder.policy() if heads == 1 else shared
        macs = window.output_height * window.output_width * operand.terms * channels
        builder.nodes.append(
            ArrayNode(
                f"layer{len(builder.nodes)}", "gemm", inputs, output, channels, window, offset, function=function,
                function_argument=argument, function_exponent=exponent, policy=policy, macs=macs, operand=operand,
            )
        )  # fmt: skip


def _slices(first: int, second: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """Slices of whole words, or up to the end, of so many channels: (first one of the first, of the second, number)."""
    for start in range(0, first, lanes):
        for other in range(0, second, lanes):
            left = first - start, second - other
            if left[0] == left[1]:
                yield start, other, left[0]
            for terms in range(lanes, min(left) + 1, lanes):
                yield start, other, terms
