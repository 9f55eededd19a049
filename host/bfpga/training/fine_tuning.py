"""Fine-tuning of PyTorch modules in an array's own numbers: what trains is what runs (docs/tutorials/fine-tune.md).

``prepare`` inserts quantizers where the compiler rounds: after every layer that the array computes, with the function
that follows it, and in front of layers that read values of the host. Weights and biases get the array's integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.recipes import load_recipe
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.errors import ConfigurationError, ModelError
from bfpga.training.fake_quantizers import Average, Marker, Numbers, PlainSum, Product, Quantizer, Sum, TableFunction
from bfpga.training.torch_functions import (
    AVERAGES,
    FUNCTIONS,
    MOVING,
    NORMALIZATIONS,
    PRODUCTS,
    READING,
    REFUSED,
    SUMS,
    array_function,
    as_module,
    average_in_steps,
    average_of,
    fuse,
    kind_of,
)
from bfpga.training.torch_import import ShapeProp, Tensor, fx, nn, torch

#: Policies that can be trained with: exponents chosen by samples, or of each sample's largest value.
POLICIES = {"auto": False, "static": False, "max": True}


def prepare(
    module: nn.Module,
    accelerator: str | Path | Accelerator,
    samples: Any,
    recipe: str | Path | CompileOptions | None = None,
) -> Prepared:
    """A copy of a module that computes what an array does, to be trained on; the module itself does not change.

    samples: (samples, ...) of its input, or several in a tuple; they choose the exponents. recipe: policy ``static``
    (``auto``) or ``max``, and the format of weights. Batch normalization is folded into the layer before it.
    ModelError for a module that ``torch.fx`` cannot trace, or with operations that cannot be trained (they are named);
    ConfigurationError for a recipe that cannot be trained with.
    """
    chosen = load_accelerator(accelerator)
    options = recipe if isinstance(recipe, CompileOptions) else load_recipe(recipe) if recipe else CompileOptions()
    numbers = _numbers(chosen.config, options)
    inputs = tuple(samples) if isinstance(samples, (tuple, list)) else (samples,)
    tensors = tuple(torch.as_tensor(x) for x in inputs)
    traced = _traced(module)
    try:
        ShapeProp(traced).propagate(*tensors)
    except RuntimeError as error:
        raise ModelError(f"{type(module).__name__} does not take the samples: {error}") from None
    prepared = Prepared(_Preparation(traced, numbers).run(), _trained_options(options, numbers))
    prepared.eval()
    with torch.no_grad():
        prepared(*tensors)
    prepared.train(module.training)
    return prepared


def unprepare(prepared: Prepared) -> nn.Module:
    """The plain module of a prepared one: no quantizers, weights rounded as the array has them."""
    return prepared.plain(marked=False)


class Prepared(nn.Module):
    """A module that computes with an array's numbers; ``prepare`` makes it, ``bfpga.compile`` takes it."""

    def __init__(self, body: fx.GraphModule, options: CompileOptions) -> None:
        super().__init__()
        #: Named as ``compiler.read.frameworks`` looks for it.
        self.bfpga_options = options
        self.body = body

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        """x, others: (samples, ...)."""
        return self.body(x, *others)

    def calibrate(self, x: Tensor, *others: Tensor) -> None:
        """Choose static exponents anew, by samples: training moves the ranges. x, others: (samples, ...)."""
        for quantizer in self.quantizers():
            quantizer.calibrated = quantizer.dynamic
        training = self.training
        self.eval()
        with torch.no_grad():
            self(x, *others)
        self.train(training)

    def quantizers(self) -> list[Quantizer]:
        """Where activations are rounded, in the order of the module."""
        return [part for part in self.body.modules() if isinstance(part, Quantizer)]

    def bfpga_deployed(self) -> nn.Module:
        """The module that is exported in place of this one."""
        return self.plain(marked=True)

    def plain(self, marked: bool) -> nn.Module:
        """Without the array's arithmetic, but for its weights. marked: static exponents stay, as ONNX quantizers."""
        body = deepcopy(self.body)
        for node in list(body.graph.nodes):
            part = body.get_submodule(str(node.target)) if node.op == "call_module" else None
            if isinstance(part, Quantizer) and (part.dynamic or not marked):
                node.replace_all_uses_with(node.args[0])
                body.graph.erase_node(node)
            elif isinstance(part, Quantizer):
                body.set_submodule(str(node.target), Marker(part))
            elif isinstance(part, (Product, Average, Sum, TableFunction)):
                body.set_submodule(str(node.target), part.plain())
        body.delete_all_unused_submodules()
        body.recompile()
        return body.train(self.training)


def _numbers(config: KernelConfig, options: CompileOptions) -> Numbers:
    if options.policy not in POLICIES:
        raise ConfigurationError(
            f"policy {options.policy} cannot be trained with: choose {', '.join(POLICIES)}; exponents that follow "
            "earlier runs are not a function of the sample"
        )
    if options.layers:
        raise ConfigurationError("recipes with exceptions by layer cannot be trained with: a module has other names")
    if config.format.saturation == "wrap":
        raise ConfigurationError("mantissas that wrap cannot be trained with: there is no slope towards the range")
    offered, wanted = config.weight_formats, options.formats
    if wanted != "auto" and wanted not in offered:
        raise ConfigurationError(f"weights of format {wanted} are not for this array; it takes {' or '.join(offered)}")
    return Numbers(config, offered[0] if wanted == "auto" else wanted, POLICIES[options.policy], options.weights)


def _trained_options(options: CompileOptions, numbers: Numbers) -> CompileOptions:
    """Options with which the compiler changes no number that was trained."""
    return replace(
        options, policy="max" if numbers.dynamic else "auto", formats=numbers.weight_format, bias_correction=False,
        compensation=False, equalize=False, fill_mantissas=False, remainders="never",
    )  # fmt: skip


def _traced(module: nn.Module) -> fx.GraphModule:
    """A copy as a graph, in evaluation mode, batch normalization folded."""
    copy = deepcopy(module).eval()
    copy = nn.Sequential(copy) if not list(copy.children()) else copy
    try:
        traced = fx.symbolic_trace(copy)
    except Exception as error:
        raise ModelError(
            f"{type(module).__name__} cannot be traced by torch.fx: {error}. Move what depends on values out of forward"
        ) from None
    uses = Counter(str(node.target) for node in traced.graph.nodes if node.op == "call_module")
    for node in list(traced.graph.nodes):
        if kind_of(node, traced) in NORMALIZATIONS:
            before = node.args[0]
            alone = kind_of(before, traced) in PRODUCTS and len(before.users) == 1 and uses[str(before.target)] == 1
            if not alone:
                raise ModelError(f"{node.target}: batch normalization without a layer before it cannot be trained")
            fused = fuse(traced.get_submodule(str(before.target)), traced.get_submodule(str(node.target)))
            traced.set_submodule(str(before.target), fused)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


class _Preparation:
    """One walk over a graph, operation by operation.

    A value is *open* if a layer of the array gave it and nothing has rounded it yet: a function may still join the
    layer. Values that only the host has are rounded for layers that read them, and for no one else.
    """

    def __init__(self, traced: fx.GraphModule, numbers: Numbers) -> None:
        self.traced, self.numbers = traced, numbers
        self.graph = fx.Graph()
        self.modules: dict[str, Any] = {name: part for name, part in traced.named_modules() if name}
        self.modules |= dict(traced.named_parameters()) | dict(traced.named_buffers())
        self.new: dict[fx.Node, fx.Node] = {}
        self.open: set[fx.Node] = set()
        self.rounded: dict[fx.Node, fx.Node] = {}
        self.sources: dict[fx.Node, Quantizer] = {}

    def run(self) -> fx.GraphModule:
        """The graph with quantizers."""
        for node in self.traced.graph.nodes:
            if node.op == "output":
                self.graph.output(fx.node.map_arg(node.args[0], self._as_value))
            else:
                self._convert(node, kind_of(node, self.traced))
        self.graph.lint()
        result = fx.GraphModule(self.modules, self.graph)
        result.delete_all_unused_submodules()
        return result

    def _convert(self, node: fx.Node, kind: Any) -> None:
        inputs = node.all_input_nodes
        if kind in PRODUCTS:
            source = self._rounded(inputs[0])
            layer = self.traced.get_submodule(str(node.target))
            self._put(node, "product", Product(layer, self.sources[source], self.numbers), source)
        elif kind in FUNCTIONS and array_function(as_module(node, self.traced), self.numbers.config) is not None:
            self._function(node, as_module(node, self.traced))
        elif kind in SUMS and len(inputs) == len(node.args) == 2 and self._same_shape(inputs):
            self._sum(node, inputs)
        elif kind in AVERAGES:
            self._average(node)
        elif kind is torch.cat:
            self._concatenation(node)
        elif kind in (*READING, *MOVING):
            self._move(node)
        elif kind in REFUSED and any(item.op != "get_attr" for item in inputs):
            raise ModelError(f"{node.name}: {node.target} cannot be trained with an array's numbers yet")
        else:
            self.new[node] = self.graph.node_copy(node, self._as_value)

    def _sum(self, node: fx.Node, inputs: Sequence[fx.Node]) -> None:
        """A sum of rounded values; or of one and a product's, where the product adds it (compiler/residual_adds.py)."""
        products = [item for item in inputs if self._joins(item) and kind_of(item, self.traced) in PRODUCTS]
        if products and self.numbers.config.residual_adds and not self.numbers.dynamic:
            order = list(self.traced.graph.nodes)
            product = max(products, key=order.index)
            (other,) = (item for item in inputs if item is not product)
            self._put(node, "sum", PlainSum(), self.new[product], self._rounded(other))
            return
        first, second = (self._rounded(item) for item in inputs)
        both = Sum(self.sources[first], self.sources[second], self.numbers.format)
        self._put(node, "sum", both, first, second)

    def _joins(self, node: fx.Node) -> bool:
        """Whether a layer's results may become a part of the next layer: nothing else reads them."""
        return node in self.open and node not in self.rounded and len(node.users) == 1

    def _average(self, node: fx.Node) -> None:
        """A large one in two steps, as the compiler takes it; what is between them is rounded too."""
        value = self._rounded(node.all_input_nodes[0])
        found = average_of(node, self.traced)
        apart = "linear" in self.numbers.config.weight_formats
        windows = average_in_steps(node, *found) if apart else [found]
        for size, pool in windows[:-1]:
            between = self._call("average", Average(size, pool, self.numbers), value)
            value = self._call("quantizer", Quantizer(self.numbers.format, self.numbers.dynamic), between)
        self._put(node, "average", Average(*windows[-1], self.numbers), value)

    def _put(self, node: fx.Node, name: str, part: nn.Module, *values: fx.Node) -> None:
        """A layer of the array."""
        self.new[node] = self._call(name, part, *values)
        self.open.add(node)

    def _call(self, name: str, part: nn.Module, *values: fx.Node) -> fx.Node:
        place = f"{name}_{len(self.modules)}"
        self.modules[place] = part
        return self.graph.call_module(place, values)

    def _function(self, node: fx.Node, function: nn.Module) -> None:
        """A part of the layer before it where nothing else reads that, else a layer of its own."""
        source = node.all_input_nodes[0]
        value = self.new[source] if self._joins(source) else self._rounded(source)
        found = cast(Function, array_function(function, self.numbers.config))
        table = found.row.table
        self._put(node, "function", function if table is None else TableFunction(table, function), value)

    def _concatenation(self, node: fx.Node) -> None:
        """Layers write their parts with the exponent of the whole."""
        def part(item: fx.Node) -> fx.Node:
            return self.new[item] if self._joins(item) else self._rounded(item)

        self.new[node] = self.graph.node_copy(node, part)
        whole = Quantizer(self.numbers.format, False)
        self._round(node, whole)

    def _move(self, node: fx.Node) -> None:
        """A rearrangement, or a maximum: mantissas stay as they are."""
        source = node.all_input_nodes[0]
        value = self._rounded(source) if kind_of(node, self.traced) in READING else self._as_value(source)
        self.new[node] = self.graph.node_copy(node, lambda item: value if item is source else self._as_value(item))
        if value in self.sources:
            self.sources[self.new[node]] = self.sources[value]
            self.rounded[node] = self.new[node]

    def _as_value(self, node: fx.Node) -> fx.Node:
        """A value for the host: rounded if the array gave it."""
        return self._rounded(node) if node in self.open or node in self.rounded else self.new[node]

    def _rounded(self, node: fx.Node) -> fx.Node:
        """A value as mantissas of the array."""
        if node not in self.rounded:
            self._round(node, Quantizer(self.numbers.format, self.numbers.dynamic))
        return self.rounded[node]

    def _round(self, node: fx.Node, quantizer: Quantizer) -> None:
        self.rounded[node] = self._call("quantizer", quantizer, self.new[node])
        self.sources[self.rounded[node]] = quantizer

    def _same_shape(self, nodes: Sequence[fx.Node]) -> bool:
        shapes = [getattr(node.meta.get("tensor_meta"), "shape", None) for node in nodes]
        return shapes[0] is not None and shapes.count(shapes[0]) == len(shapes)
