"""Networks that a processor trains in minutes, and what makes the largest values of channels alike; needs PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from benchmarks.training.fine_tuned import MobileNet, convolution
from benchmarks.training.rounded_products import MatMul


def separable() -> nn.Sequential:
    """As MobileNetV1, for images of 32 x 32."""
    return MobileNet((32, 64, 128, 128, 256, 256), (1, 1, 2, 1, 2, 1), 3, nn.ReLU)


def folded(network: nn.Module) -> nn.Module:
    """The same network with batch normalization in the convolution before it, where it has any."""
    if not isinstance(network, nn.Sequential):
        return network
    parts: list[nn.Module] = []
    for part in deepcopy(network).eval():
        if isinstance(part, nn.BatchNorm2d):
            parts[-1] = fuse_conv_bn_eval(parts[-1], part)  # type: ignore[type-var]
        else:
            parts.append(part)
    return nn.Sequential(*parts)


def keyword_network(file: Path) -> nn.Sequential:
    """DS-CNN of MLPerf Tiny from its ONNX file, to the scores before its Softmax."""
    graph = onnx.load(file).graph
    numbers = {item.name: torch.tensor(onnx.numpy_helper.to_array(item)) for item in graph.initializer}
    parts: list[nn.Module] = []
    for node in graph.node:
        given = {item.name: item for item in node.attribute}
        if node.op_type == "Conv":
            strides, pads = tuple(given["strides"].ints), list(given["pads"].ints)
            weights, bias = numbers[node.input[1]], numbers[node.input[2]]
            parts += [convolution(weights, bias, strides, pads, given["group"].i), nn.ReLU()]
    dense = [node.input[1] for node in graph.node if node.op_type in ("MatMul", "Add")]
    weights, bias = (numbers[name] for name in dense)
    scores = nn.Linear(*weights.shape)
    scores.weight.data, scores.bias.data = weights.T.contiguous(), bias
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), scores)


class Attention(nn.Module):
    """Self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scores, self.mixed = MatMul(), MatMul()

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, tokens, width)."""
        each = x.shape[-1] // self.heads
        q, k, v = (part.unflatten(-1, (self.heads, each)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (self.scores(q, k.transpose(-2, -1)) * each**-0.5).softmax(-1)
        result: Tensor = self.out(self.mixed(weights, v).transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    """A transformer's block, normalized first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, tokens, width)."""
        x = x + self.attention(self.first(x))
        result: Tensor = x + self.mlp(self.second(x))
        return result


class VisionTransformer(nn.Module):
    """Patches of 4 x 4, positions, blocks, the mean of all tokens."""

    def __init__(self, width: int = 128, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 64, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, 3, 32, 32)."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        result: Tensor = self.head(self.norm(self.blocks(x)).mean(1))
        return result


@torch.no_grad()
def equalized(network: nn.Sequential, x: Tensor) -> nn.Sequential:
    """The same function, with channels whose largest values on samples are more alike.

    Powers of two, as the compiler's factors of channels: a channel takes all of it in front of a depthwise layer, whose
    rows of weights have exponents of their own, and half of it elsewhere, where it makes weights of one row unlike.
    """
    result = deepcopy(network).eval()
    for first, second in _neighbours(result):
        largest = _outputs(result, first, x).abs().amax(dim=(0, 2, 3))
        share = 1.0 if second.groups > 1 else 0.5
        factors = torch.exp2(torch.round(share * torch.log2(largest.max() / largest.clamp(min=largest.max() / 256))))
        first.weight *= factors.reshape(-1, 1, 1, 1)
        first.bias *= factors  # type: ignore[operator]
        shape = (-1, 1, 1, 1) if second.groups > 1 else (1, -1, 1, 1)
        second.weight /= factors.reshape(shape)
    return result


def _neighbours(network: nn.Sequential) -> Iterator[tuple[nn.Conv2d, nn.Conv2d]]:
    found = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    yield from itertools.pairwise(found)


def _outputs(network: nn.Sequential, layer: nn.Conv2d, x: Tensor) -> Tensor:
    """What a convolution gives, after ReLU."""
    seen: list[Tensor] = []
    hook = layer.register_forward_hook(lambda module, given, output: seen.append(torch.relu(output)))
    network(x)
    hook.remove()
    return seen[0]
