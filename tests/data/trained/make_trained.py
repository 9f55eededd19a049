"""A vision transformer, a GRU and a network of inverted residuals, trained on the digits of MNIST in PyTorch.

    python make_trained.py FOLDER [NAME...]

FOLDER holds the four files of MNIST (idx, not compressed). Needs torch and onnx; the versions that made the files here
stand in README.md. Prints the share of the 10,000 test images that PyTorch finds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
BATCH = 128


class Attention(nn.Module):
    """Self-attention of several heads, written with products and a Softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        result: Tensor = self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return result


class Block(nn.Module):
    """A transformer's block, normalized first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.second, self.mlp = nn.LayerNorm(width), nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        result: Tensor = x + self.mlp(self.second(x))
        return result


class VisionTransformer(nn.Module):
    """Patches of 4 x 4, positions, two blocks of four heads, the mean of all tokens."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.positions = nn.Parameter(torch.randn(1, 49, width) * 0.02)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        result: Tensor = self.head(self.norm(self.blocks(x)).mean(1))
        return result


class Rows(nn.Module):
    """A GRU over the 28 rows of an image, and a classifier of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(28, 48, batch_first=True), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        steps: Tensor = self.layer(x.squeeze(1))[0]
        result: Tensor = self.head(steps[:, -1])
        return result


class Residual(nn.Module):
    """An inverted residual with SiLU, squeeze and excitation."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.expand = nn.Sequential(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU())
        self.deep = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, inputs, 1), nn.SiLU(), nn.Conv2d(inputs, wide, 1), nn.Sigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.short else y


class InvertedResiduals(nn.Module):
    """As EfficientNet has them, with 8, 12 and 16 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.blocks = nn.Sequential(Residual(8, 12, 2), Residual(12, 12, 1), Residual(12, 16, 2), Residual(16, 16, 1))
        self.head = nn.Sequential(
            nn.Conv2d(16, 48, 1, bias=False), nn.BatchNorm2d(48), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(48, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.blocks(self.stem(x)))
        return result


#: Network, epochs and rate of each.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int, float]] = {
    "mnist_gru": (Rows, 8, 4e-3),
    "mnist_vit": (VisionTransformer, 8, 3e-3),
    "mnist_silu_se": (InvertedResiduals, 4, 4e-3),
}


def images(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 28, 28) from 0 to 1, and their digits."""
    pixels = np.frombuffer((folder / f"{part}-images-idx3-ubyte").read_bytes()[16:], np.uint8)
    digits = np.frombuffer((folder / f"{part}-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    x = torch.from_numpy(pixels.astype(np.float32).reshape(-1, 1, 28, 28) / 255)
    return x, torch.from_numpy(digits.astype(np.int64))


def train(name: str, x: Tensor, y: Tensor) -> nn.Module:
    """The network after its epochs, always the same."""
    torch.manual_seed(1)
    build, epochs, rate = NETWORKS[name]
    network = build()
    steps = epochs * (len(x) // BATCH)
    descent = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.02)
    plan = torch.optim.lr_scheduler.OneCycleLR(descent, rate, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            loss = functional.cross_entropy(network(x[chosen]), y[chosen])
            descent.zero_grad()
            loss.backward()
            descent.step()
            plan.step()
    return network.eval()


def found(network: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of images whose digit is found."""
    with torch.no_grad():
        right = sum(int((network(a).argmax(1) == b).sum()) for a, b in zip(x.split(500), y.split(500), strict=True))
    return right / len(y)


def main(folder: Path, names: list[str]) -> None:
    training, test = images(folder, "train"), images(folder, "t10k")
    for name in names or NETWORKS:
        network = train(name, *training)
        print(name, f"{100 * found(network, *test):.2f} %", flush=True)
        path = FOLDER / f"{name}.onnx"
        axes = {"x": {0: "N"}, "y": {0: "N"}}
        torch.onnx.export(network, (test[0][:2],), str(path), dynamo=False, opset_version=17, input_names=["x"],
                          output_names=["y"], dynamic_axes=axes)  # fmt: skip
        onnx.checker.check_model(onnx.load(path), full_check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
