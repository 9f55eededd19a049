"""Small networks as PyTorch's two exporters write them.

    python make_pytorch.py [NAME...]

Needs torch, onnx and onnxscript; the versions that made the files here stand in README.md. Weights are random, from
fixed seeds. `NAME_legacy.onnx` is of `dynamo=False`, `NAME_dynamo.onnx` of `dynamo=True`, both with an open batch;
`batch1` is what either writes if nobody asks for an open batch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent


class Recurrent(nn.Module):
    """A recurrent layer, and a classifier of its last step."""

    def __init__(self, kind: type[nn.RNNBase], both: bool = False) -> None:
        super().__init__()
        self.layer = kind(6, 8, batch_first=True, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        steps: Tensor = self.layer(x)[0]
        result: Tensor = self.head(steps[:, -1])
        return result


class TemporalConvolutions(nn.Module):
    """Causal convolutions with growing dilations, cut at the right, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(6 if d == 1 else 8, 8, 3, padding=2 * d, dilation=d) for d in (1, 2, 4))
        self.reduce = nn.Conv1d(6, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            other = self.reduce(x) if x.shape[1] == 6 else x
            y = layer(x)
            x = torch.relu(torch.relu(y[:, :, : -layer.padding[0]]) + other)
        result: Tensor = self.head(x[:, :, -1])
        return result


class Attention(nn.Module):
    """Self-attention of two heads, with a causal mask of minus infinity if asked for."""

    def __init__(self, width: int, causal: int = 0) -> None:
        super().__init__()
        self.width, self.projection, self.out = width, nn.Linear(width, 3 * width), nn.Linear(width, width)
        mask = torch.full((causal, causal), float("-inf")).triu(1) if causal else None
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.projection(x).reshape(batch, tokens, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        scores = query @ key.transpose(-2, -1) * (width // 2) ** -0.5
        if self.mask is not None:
            scores = scores + self.mask[:tokens, :tokens]
        joined = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, tokens, width)
        result: Tensor = self.out(joined)
        return result


class Block(nn.Module):
    """A transformer block, normalized first."""

    def __init__(self, width: int, causal: int = 0) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, one block, a head that reads the token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.block = nn.Conv2d(3, 16, 4, 4), Block(16)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1) + self.positions
        result: Tensor = self.head(self.norm(self.block(tokens))[:, 0])
        return result


class MobileViT(nn.Module):
    """A MobileViT block: the image unfolded to patches of 2 x 2, a transformer, folded again."""

    def __init__(self) -> None:
        super().__init__()
        self.local = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 8, 1))
        self.block, self.back = Block(8), nn.Conv2d(8, 4, 1)
        self.joined = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        batch, width, rows, columns = y.shape
        y = y.reshape(batch * width * rows // 2, 2, columns // 2, 2).transpose(1, 2)
        y = y.reshape(batch, width, rows * columns // 4, 4).transpose(1, 3).reshape(batch * 4, -1, width)
        y = self.block(y)
        y = y.view(batch, 4, rows * columns // 4, width).transpose(1, 3)
        y = y.reshape(batch * width * rows // 2, columns // 2, 2, 2).transpose(1, 2)
        y = y.reshape(batch, width, rows, columns)
        result: Tensor = self.joined(torch.cat([x, self.back(y)], 1))
        return result


class ConvNeXt(nn.Module):
    """A ConvNeXt block: depthwise 7 x 7, normalization of channels last, two products, a scale, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 8, 2, 2), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale, self.head = nn.Parameter(torch.full((8,), 0.5)), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.narrow(functional.gelu(self.wide(self.norm(self.deep(x).permute(0, 2, 3, 1)))))
        x = x + (self.scale * y).permute(0, 3, 1, 2)
        result: Tensor = self.head(x.mean([-2, -1]))
        return result


class YoloHead(nn.Module):
    """A detector's head with decoding: boxes from distributions over distances, scores, two scales."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.boxes = nn.ModuleList(nn.Conv2d(8, 16, 1) for _ in range(2))
        self.classes = nn.ModuleList(nn.Conv2d(8, 3, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        found, maps = [], [functional.silu(self.first(x))]
        maps.append(functional.silu(self.second(maps[0])))
        for level, (map_, boxes, classes) in enumerate(zip(maps, self.boxes, self.classes, strict=True)):
            batch, _, rows, columns = map_.shape
            distances = boxes(map_).reshape(batch, 4, 4, rows * columns).softmax(2)
            distances = (distances * torch.arange(4, dtype=torch.float32).reshape(1, 1, 4, 1)).sum(2)
            y, x_ = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            centres = torch.stack([x_.flatten(), y.flatten()]).unsqueeze(0)
            low, high = centres - distances[:, :2], centres + distances[:, 2:]
            box = torch.cat([(low + high) / 2, high - low], 1) * 2 ** (level + 1)
            found.append(torch.cat([box, classes(map_).flatten(2).sigmoid()], 1))
        return torch.cat(found, 2)


class DistributionHead(nn.Module):
    """A detector's head as of YOLOv8: the mean of a distribution is a convolution over its transposed Softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.boxes, self.classes = nn.Conv2d(8, 4 * 8, 1), nn.Conv2d(8, 5, 1)
        self.mean = nn.Conv2d(8, 1, 1, bias=False).requires_grad_(False)
        self.mean.weight.data[:] = torch.arange(8, dtype=torch.float32).reshape(1, 8, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.silu(self.first(x))
        batch, _, rows, columns = x.shape
        anchors = rows * columns
        distances = self.boxes(x).view(batch, 4, 8, anchors).transpose(2, 1).softmax(1)
        low, high = self.mean(distances).view(batch, 4, anchors).chunk(2, 1)
        centres = torch.stack([torch.arange(anchors) % columns, torch.arange(anchors) // columns]).unsqueeze(0) + 0.5
        low, high = centres - low, centres + high
        return torch.cat([(low + high) / 2, high - low], 1) * 2, self.classes(x).flatten(2).sigmoid()


class MobileNetV3(nn.Module):
    """Two inverted residuals of MobileNetV3, squeeze and excitation with hard functions in one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 5, 1, 2, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU(), nn.Conv2d(8, 16, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.deep(self.expand(x))
        result: Tensor = self.head(x + self.project(y * self.squeeze(y)))
        return result


class UNet(nn.Module):
    """One step down and one up, by bilinear interpolation, with a skip connection."""

    def __init__(self, corners: bool = False) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.low = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=corners)
        self.out = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.down(x)
        result: Tensor = self.out(torch.cat([high, self.up(self.low(high))], 1))
        return result


class PixelShuffle(nn.Module):
    """Super-resolution by a factor of two."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Decoder(nn.Module):
    """A causal decoder block on embedded tokens: nobody looks ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.block, self.head = nn.Linear(6, 16), Block(16, causal=8), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.block(self.embed(x)))
        return result


class Perceptron(nn.Module):
    """Two layers with GELU between."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(functional.gelu(self.first(x)))
        return result


class Mixer(nn.Module):
    """An MLP mixer of two blocks: layers along the tokens between transpositions, then along the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, tokens = nn.Conv2d(3, 16, 4, 4), 16
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(5))
        self.along_tokens = nn.ModuleList(Perceptron(tokens, 24) for _ in range(2))
        self.along_channels = nn.ModuleList(Perceptron(16, 32) for _ in range(2))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for number, (tokens, channels) in enumerate(zip(self.along_tokens, self.along_channels, strict=True)):
            x = x + tokens(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * number + 1](x))
        result: Tensor = self.head(self.norms[4](x).mean(1))
        return result


class ConvolvedMixer(nn.Module):
    """A mixer whose patches are cut by reshaping, and whose layers along the tokens are convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.last = nn.Linear(48, 16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.first, self.second, self.head = nn.Conv1d(16, 24, 1), nn.Conv1d(24, 16, 1), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 3, 4, 4, 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, 48)
        x = self.embed(patches)
        x = x + self.second(functional.gelu(self.first(self.norm(x))))
        result: Tensor = self.head(self.last(x).mean(1))
        return result


class ConvolutionalAttention(nn.Module):
    """CBAM: channels are weighed by their average and maximum, pixels by mean and maximum of their channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, padding=1)
        self.weigh = nn.Sequential(nn.Conv2d(16, 4, 1, bias=False), nn.ReLU(), nn.Conv2d(4, 16, 1, bias=False))
        self.place, self.head = nn.Conv2d(2, 1, 7, padding=3, bias=False), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        y = self.deep(x)
        found = functional.adaptive_avg_pool2d(y, 1), functional.adaptive_max_pool2d(y, 1)
        y = y * torch.sigmoid(self.weigh(found[0]) + self.weigh(found[1]))
        both = torch.cat([y.mean(1, keepdim=True), y.max(1, keepdim=True)[0]], 1)
        y = y * torch.sigmoid(self.place(both))
        result: Tensor = self.head(torch.relu(x + y).mean((2, 3)))
        return result


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "gru": (lambda: Recurrent(nn.GRU), (6, 6)),
    "lstm": (lambda: Recurrent(nn.LSTM), (6, 6)),
    "bilstm": (lambda: Recurrent(nn.LSTM, True), (4, 6)),
    "tcn": (TemporalConvolutions, (6, 16)),
    "vit": (VisionTransformer, (3, 16, 16)),
    "mobilevit": (MobileViT, (4, 8, 8)),
    "convnext": (ConvNeXt, (3, 16, 16)),
    "yolo": (YoloHead, (3, 16, 16)),
    "distributions": (DistributionHead, (3, 16, 16)),
    "mobilenetv3": (MobileNetV3, (3, 16, 16)),
    "cbam": (ConvolutionalAttention, (3, 16, 16)),
    "unet": (UNet, (3, 8, 8)),
    "pixel_shuffle": (PixelShuffle, (1, 8, 8)),
    "decoder": (Decoder, (8, 6)),
    "mixer": (Mixer, (3, 16, 16)),
    "mixer_convolved": (ConvolvedMixer, (3, 16, 16)),
}


#: Files of every network, and more of those whose files differ in kind.
FORMS = ("legacy", "dynamo_batch1")
MORE = {
    "gru": ("dynamo",), "lstm": ("legacy_batch1",), "vit": ("dynamo", "legacy_batch1"), "mobilevit": ("legacy_batch1",),
}  # fmt: skip


OUTPUTS = {"distributions": ["boxes", "scores"]}


def made(name: str) -> tuple[nn.Module, Tensor]:
    """A network with fixed random weights, and two samples."""
    torch.manual_seed(sum(name.encode()))
    build, shape = NETWORKS[name]
    network = build().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return network, torch.randn(2, *shape)


def export(name: str, form: str) -> None:
    """Write one file; traces of the stack, which name places of this machine, are taken out."""
    network, x = made(name)
    exporter, _, batch = form.partition("_")
    path, settings = FOLDER / f"{name}_{form}.onnx", {"input_names": ["x"], "output_names": OUTPUTS.get(name, ["y"])}
    if exporter == "legacy":
        settings |= {"dynamo": False, "opset_version": 17}
        settings |= {} if batch else {"dynamic_axes": {value: {0: "N"} for value in ("x", *settings["output_names"])}}
    else:
        settings |= {"dynamo": True, "external_data": False}
        settings |= {} if batch else {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    torch.onnx.export(network, (x[:1] if batch else x,), str(path), **settings)
    model = onnx.load(path)
    graph = model.graph
    for item in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        del item.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for chosen in sys.argv[1:] or NETWORKS:
        for each in (*FORMS, *MORE.get(chosen, ())):
            export(chosen, each)
