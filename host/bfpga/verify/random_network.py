"""Random networks: chains and branches of every kind of layer, with any function and any exponent policy.

Weights are pruned for arrays that skip those that are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bfpga.compiler.numbers.shift_weights import representable_integers
from bfpga.compiler.schedule.compressed_maps import compress
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.table_plan import place_tables
from bfpga.compiler.schedule.weight_plan import factor_reserve, plan_weights, setup_launch
from bfpga.contract.arrays.sparse_cluster import map_array
from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.descriptor import Function, Policy
from bfpga.contract.program import ArrayNode, PolicySpec, Program, TensorSpec, Window
from bfpga.contract.rows import GAIN_BITS, SOFTMAX_EXPONENT, RowOperation, RowWork
from bfpga.engines.output.exponents import LEARNING
from bfpga.engines.rows.settings import RowSettings
from bfpga.engines.sparse_cluster.unit_maps import possible_joins, refusal
from bfpga.engines.systolic.tap_reuse import choose_tap_reuse
from bfpga.errors import ModelError
from bfpga.formats.arrays import IntArray
from bfpga.verify.random_flows import random_flow, random_rule
from bfpga.verify.random_predicates import with_random_arrays, with_random_predicates
from bfpga.verify.random_products import add_products
from bfpga.verify.random_windows import random_window, tap_reuse_window
from bfpga.verify.random_zeros import pruned

Generator = np.random.Generator
#: Networks drawn for one case until one fits the array's memories.
ATTEMPTS = 50
#: Rows, columns and channels of the first map at most, and of memories that took none of so many such networks.
LARGEST, SMALL = (14, 14, 19), (3, 3, 8)
#: Rows and columns of the largest kernels of a sparse cluster.
IN_PARTS = 11


@dataclass
class NetworkBuilder:
    """Grows a random network node by node; tensors keep (height, width, channels)."""

    rng: Generator
    config: KernelConfig
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    nodes: list[ArrayNode] = field(default_factory=list)
    #: Rows, columns and channels of the first map at most.
    largest: tuple[int, int, int] = LARGEST

    def tensor(self, height: int, width: int, channels: int, exponent: int | None = None) -> str:
        name = f"t{len(self.tensors)}"
        shape = (channels, height, width)
        self.tensors[name] = TensorSpec(name, height, width, channels, exponent, shape, (1, 2, 0))
        return name

    def policy(self) -> PolicySpec:
        """Static around a plausible exponent, or any policy of the kernel.

        Arrays that keep accumulators in memory are rare, so every other layer on one has the policy that keeps.
        """
        kinds = [0, 0, 0, 1, 2, 3, 4] + [int(Policy.MAX)] * 6 * self.config.wide_memory
        kind = Policy(int(self.rng.choice(kinds)))
        kind = Policy.STATIC if self.config.static_exponents else kind
        exponent = int(self.rng.integers(-14, 3)) + (8 - self.config.format.mantissa_bits) // 2
        exponent = int(np.clip(exponent, self.config.format.exponent_min, self.config.format.exponent_max))
        if kind is Policy.STATIC:
            return PolicySpec(kind, exponent)
        rule = random_rule(self.rng, self.config)
        if kind is Policy.MAX:
            return replace(PolicySpec(kind, exponent, **rule), **random_flow(self.rng, self.config))
        window = int(self.rng.integers(0, 6)) if kind is Policy.STATISTICS else int(self.rng.integers(1, 9))
        factor = int(self.rng.integers(0, 18))
        slot = len(self.nodes) % self.config.policy_slots
        return PolicySpec(kind, exponent, slot, window, factor, preset=bool(self.rng.random() < 0.3), **rule)

    def function(self) -> tuple[Function, int, int]:
        """A function of the kernel with its argument and the argument's exponent."""
        drawn = (*Function, Function.RELU)
        known = sorted(int(kind) for kind in drawn if kind.key in self.config.known_functions)
        kind = Function(int(self.rng.choice(known)))
        if kind.row.argument is None:
            return kind, 0, 0
        argument, exponent = (int(self.rng.integers(item.start, item.stop)) for item in kind.row.argument.drawn)
        return kind, argument, exponent

    def product_window(self, spec: TensorSpec, largest: int) -> Window:
        """A window of products: of a sparse cluster of its units' kernels, or a larger one, which comes in parts."""
        if not self.config.array.reads_maps:
            return random_window(self.rng, spec, largest)
        while True:
            whole = self.rng.random() < 0.5
            window = random_window(self.rng, spec, map_array(self.config.array).kernel if whole else IN_PARTS)
            words = -(-spec.channels // self.config.lanes)
            if not refusal(window, spec.height, spec.width, words, self.config):
                return window

    def convolution(self, source: str) -> str:
        """A convolution with any groups, or two that write side by side into one tensor (concatenation)."""
        rng, spec = self.rng, self.tensors[source]
        if self.config.tap_reuse and spec.width <= self.config.columns and rng.random() < 0.4:
            return self.depthwise(source)
        window = self.product_window(spec, 5)
        groups = self.divisor(spec.channels) if rng.random() < 0.3 else 1
        channels = groups * int(rng.integers(1, max(2, 40 // groups)))
        if rng.random() < 0.8:
            output = self.tensor(window.output_height, window.output_width, channels)
            self.product(source, output, window, groups, channels, 0, self.policy())
            return output
        second = int(rng.integers(1, 20))
        start = -(-channels // self.config.lanes) * self.config.lanes  # parts begin at whole words
        output = self.tensor(window.output_height, window.output_width, start + second)
        exponent = PolicySpec(exponent=int(rng.integers(-10, 1)))  # parts share one exponent
        self.product(source, output, window, 1, start, 0, exponent)
        self.product(source, output, replace(window), 1, second, start, exponent)
        return output

    def depthwise(self, source: str) -> str:
        """A convolution channel by channel whose columns may take taps from adjacent columns."""
        spec = self.tensors[source]
        window = tap_reuse_window(self.rng, spec)
        output = self.tensor(window.output_height, window.output_width, spec.channels)
        self.product(source, output, window, spec.channels, spec.channels, 0, self.policy())
        return output

    def divisor(self, number: int) -> int:
        return int(self.rng.choice([candidate for candidate in range(1, number + 1) if number % candidate == 0]))

    def weight_format(self) -> WeightFormat:
        """Any format of weights that the array takes."""
        formats = self.config.weight_formats
        return formats[int(self.rng.integers(len(formats)))]

    def weights(self, shape: tuple[int, ...], weight_format: WeightFormat) -> IntArray:
        """Random weights of a format, now and then extreme ones, whose sums the accumulators hold exactly."""
        rng, form = self.rng, self.config.format
        values = representable_integers(self.config, weight_format)
        limit = ((1 << (self.config.accumulator_bits - 1)) - 1) // max(form.mantissa_max, -form.mantissa_min)
        while True:
            extreme = rng.random() < 0.2
            weights = rng.choice(values[[0, -1]] if extreme else values, shape).astype(np.int32)
            if np.abs(weights.reshape(len(weights), -1).astype(np.int64)).sum(axis=1).max() <= limit:
                return weights
            values = values[np.abs(values) <= max(1, int(values[-1]) // 2)]

    def product(
        self, source: str, output: str, window: Window, groups: int, channels: int, offset: int, policy: PolicySpec,
    ) -> None:  # fmt: skip
        """A layer with random mantissas, now and then extreme ones, that its accumulators hold exactly."""
        rng, inner = self.rng, self.tensors[source].channels // groups
        weight_format = self.weight_format()
        weights = self.weights((channels, window.kernel_height, window.kernel_width, inner), weight_format)
        if weight_format == "linear" and self.passes_over_zeros():
            weights = pruned(rng, weights)
        macs = weights.size * window.output_height * window.output_width
        limit = (1 << (self.config.bias_bits - 1)) - 1
        has_bias = rng.random() < 0.7
        function, argument, exponent = self.function()
        self.nodes.append(
            ArrayNode(
                f"layer{len(self.nodes)}", "gemm", (source,), output, channels, window, offset, groups,
                weights,
                rng.integers(-9, 0, channels).astype(np.int32),
                rng.integers(-limit, limit + 1, channels).astype(np.int32) if has_bias else None,
                int(rng.integers(-24, 0)),
                function, argument, exponent, bool(rng.random() < 0.2),
                policy=policy, macs=macs, weight_format=weight_format,
            )
        )  # fmt: skip

    def passes_over_zeros(self) -> bool:
        """Whether zeros of weights take no time somewhere."""
        return self.config.array.stores_entries or self.config.array.reads_maps

    def residual(self, source: str) -> str:
        """A convolution that adds a tensor to its sums: one of the same size that there is, or another convolution's.

        Its exponent is known before the sums are.
        """
        spec = self.tensors[source]
        window = random_window(self.rng, spec, 5)
        channels = int(self.rng.integers(1, 40))
        size = (window.output_height, window.output_width)
        there = [name for name, other in self.tensors.items() if (other.height, other.width) == size]
        if there and self.rng.random() < 0.6:
            second = str(self.rng.choice(there))
            channels = self.tensors[second].channels
        else:
            second = self.tensor(*size, channels)
            self.product(source, second, replace(window), 1, channels, 0, self.policy())
        output = self.tensor(*size, channels)
        policy = self.policy()
        learns = policy.policy in LEARNING
        policy = replace(policy, preset=True) if learns else PolicySpec(exponent=policy.exponent)
        self.product(source, output, window, 1, channels, 0, policy)
        node = self.nodes[-1]
        node.inputs, node.adds_second, node.function_first = (source, second), True, False
        return output

    def averaging(self, source: str) -> str:
        """Average pooling: every channel by itself, the same weight at every tap."""
        spec = self.tensors[source]
        window = self.product_window(spec, 4)
        output = self.tensor(window.output_height, window.output_width, spec.channels)
        shape = (spec.channels, window.kernel_height, window.kernel_width, 1)
        weight_format = self.weight_format()
        weight = int(self.weights((1, *shape[1:]), weight_format).flat[0])
        self.nodes.append(
            ArrayNode(
                f"layer{len(self.nodes)}", "gemm", (source,), output, spec.channels, window, groups=spec.channels,
                weights=np.full(shape, weight, np.int32), weight_format=weight_format,
                weight_exponents=np.full(spec.channels, int(self.rng.integers(-9, 0)), np.int32),
                policy=self.policy(), uniform_weights=True,
            )
        )  # fmt: skip
        return output

    def pooling(self, source: str) -> str:
        spec = self.tensors[source]
        window = random_window(self.rng, spec, 3)
        output = self.tensor(window.output_height, window.output_width, spec.channels)
        policy = PolicySpec(inherit=True) if self.rng.random() < 0.6 else self.policy()
        self.nodes.append(
            ArrayNode(f"layer{len(self.nodes)}", "max", (source,), output, spec.channels, window, policy=policy)
        )
        return output

    def addition(self, first: str, second: str) -> str:
        spec = self.tensors[first]
        window = Window(output_height=spec.height, output_width=spec.width)
        output = self.tensor(spec.height, spec.width, spec.channels)
        function, argument, exponent = self.function()
        inputs = (first,) if self.rng.random() < 0.15 else (first, second)
        self.nodes.append(
            ArrayNode(
                f"layer{len(self.nodes)}", "sum", inputs, output, spec.channels, window,
                function=function, function_argument=argument, function_exponent=exponent,
                negate_second=bool(len(inputs) == 2 and self.rng.random() < 0.3), policy=self.policy(),
            )
        )  # fmt: skip
        return output

    def of_rows(self, source: str) -> str:
        """Softmax, a normalization, or a product of two tensors; now and then with a bias."""
        rng, spec, config = self.rng, self.tensors[source], self.config
        operation = RowOperation(int(rng.integers(1, len(RowOperation))))
        inputs = (source, self.partner(source)) if operation is RowOperation.PRODUCT else (source,)
        settings = RowSettings.of(operation, spec.channels, float(rng.choice([0.0, 1e-12, 1e-5, 1.0])))
        exponent, gains = SOFTMAX_EXPONENT if operation is RowOperation.SOFTMAX else 0, None
        if operation.normalizes:
            most = (1 << (GAIN_BITS - 1)) - 1
            gains = rng.integers(-most, most + 1, spec.channels).astype(np.int32)
            exponent = int(rng.integers(-24, -10))
        limit = (1 << (config.bias_bits - 1)) - 1
        bias = rng.integers(-limit, limit + 1, spec.channels).astype(np.int32) if rng.random() < 0.4 else None
        output = self.tensor(spec.height, spec.width, spec.channels)
        function, argument, argument_exponent = self.function()
        self.nodes.append(
            ArrayNode(
                f"layer{len(self.nodes)}", "rows", inputs, output, spec.channels,
                Window(output_height=spec.height, output_width=spec.width),
                bias=bias, bias_exponent=int(rng.integers(-24, 0)), function=function, function_argument=argument,
                function_exponent=argument_exponent, function_first=bool(rng.random() < 0.2), policy=self.policy(),
                rows=RowWork(operation, settings.epsilon, exponent, gains),
            )
        )  # fmt: skip
        return output

    def partner(self, source: str) -> str:
        """Another tensor of the same shape, or the tensor itself."""
        spec = self.tensors[source]
        shape = (spec.height, spec.width, spec.channels)
        same = [name for name, other in self.tensors.items() if (other.height, other.width, other.channels) == shape]
        return str(self.rng.choice(same))

    def grow(self, layers: int) -> str:
        """Layers one after the other; the map they begin with has at most ``largest`` rows, columns, channels."""
        rng, largest = self.rng, self.largest
        exponent = int(rng.integers(-7, 1)) if rng.random() < 0.6 else None
        height, width, channels = (int(rng.integers(1, most + 1)) for most in largest)
        last = self.tensor(height, width, channels, exponent)
        if self.config.operand_weights and rng.random() < 0.4:  # as tokens are
            self.tensors.clear()
            last = self.tensor(int(rng.integers(1, 30)), 1, int(rng.integers(1, 30)), exponent)
        for _ in range(layers):
            if self.config.operand_weights and rng.random() < 0.4:
                last = add_products(self, last)
                continue
            if self.config.residual_adds and rng.random() < 0.3:
                last = self.residual(last)
                continue
            if self.config.has_rows and rng.random() < 0.4:
                last = self.of_rows(last)
                continue
            choice = rng.random()
            if choice < 0.55:
                last = self.convolution(last)
            elif choice < 0.63:
                last = self.averaging(last)
            elif choice < 0.8:
                last = self.pooling(last)
            else:
                last = self.addition(last, self.partner(last))
        return last


def random_program(rng: Generator, config: KernelConfig) -> Program:
    """A scheduled program of one to three random layers that fits ``config``."""
    for attempt in range(2 * ATTEMPTS):
        builder = NetworkBuilder(rng, config, largest=LARGEST if attempt < ATTEMPTS else SMALL)
        last = builder.grow(int(rng.integers(1, 4)))
        if config.array.reads_maps:
            join_any_pieces(rng, builder.nodes, config)
        try:
            program = schedule(builder, last)
            program = with_random_arrays(rng, program) if config.array.has_both else program
            return with_random_predicates(rng, program) if config.count_registers else program
        except ModelError:
            continue  # one row of a layer is larger than the memory: the compiler leaves such layers to the host
    raise ModelError(f"no random network fits {config.activation_words} words of activation memory")


def join_any_pieces(rng: Generator, nodes: list[ArrayNode], config: KernelConfig) -> None:
    """Units of a cluster share pieces, of whichever number the grid allows, of maps that are counted or not."""
    joins = possible_joins(config)
    for node in nodes:
        node.joined_pieces = joins[int(rng.integers(len(joins)))]
        node.counts_maps = bool(rng.integers(4))


def schedule(builder: NetworkBuilder, last: str) -> Program:
    """The program of a builder's nodes; every unread tensor leaves the array."""
    config, tensors, nodes = builder.config, builder.tensors, builder.nodes
    choose_tap_reuse(nodes, tensors, config)
    plans = plan_weights(nodes, config, factor_reserve(nodes, config))
    read = {name for node in nodes for name in node.inputs}
    leaving = {node.output for node in nodes if node.output not in read} | {last}
    steps = Scheduler(config, tensors, nodes, plans, leaving).run()
    if config.compressed_maps:
        # Any of them, whether it has zeros or not: reader and writer of a tensor need not agree.
        for operation in (operation for step in steps for operation in step.operations):
            compress([operation], {name: float(builder.rng.choice([0.5, 1])) for name in tensors})
    setup = setup_launch(nodes, plans, config)
    place_tables(setup, steps, config)
    return Program(
        "random", "random", "0" * 64, config, 100.0, tensors, list(nodes), setup, list(steps),
        {"t0": tensors["t0"].onnx_shape}, {name: tensors[name].onnx_shape for name in sorted(leaving)},
    )  # fmt: skip
