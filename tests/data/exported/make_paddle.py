"""A small network as Paddle exports it: an open batch is -1 in its files.

    python make_paddle.py

Needs paddlepaddle and paddle2onnx; the versions that made the file here stand in README.md.
"""

from __future__ import annotations

from pathlib import Path

import paddle
from paddle import nn

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    paddle.seed(1)
    network = nn.Sequential(
        nn.Conv2D(3, 8, 3, stride=2, padding=1), nn.BatchNorm2D(8), nn.Hardswish(), nn.Conv2D(8, 8, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    network.eval()
    shape = [paddle.static.InputSpec([-1, 3, 12, 12], "float32", "image")]
    paddle.onnx.export(network, str(FOLDER / "paddle_batch"), input_spec=shape, opset_version=13)
