"""Networks of few bits with averages, as Brevitas exports them.

    python make_brevitas.py

Needs torch, brevitas, onnx, onnxscript and onnxoptimizer; the versions that made the files here stand in README.md.
Weights are random, from a fixed seed; the ranges of the quantizers are those of one pass in training mode.
"""

from __future__ import annotations

from pathlib import Path

import torch
from brevitas import nn as quant_nn
from brevitas.export import export_onnx_qcdq, export_qonnx
from brevitas.quant import Int8WeightPerTensorFloat, Uint8ActPerTensorFloat
from torch import nn

FOLDER = Path(__file__).parent


def network(bits: int) -> nn.Module:
    """Two convolutions of few bits, the average of what they find, a classifier."""

    def convolution(inputs: int, outputs: int) -> nn.Module:
        quant = {"weight_quant": Int8WeightPerTensorFloat, "weight_bit_width": bits}
        return quant_nn.QuantConv2d(inputs, outputs, 3, padding=1, **quant)

    def relu() -> nn.Module:
        return quant_nn.QuantReLU(act_quant=Uint8ActPerTensorFloat, bit_width=bits)

    return nn.Sequential(
        convolution(1, 8), relu(), nn.AvgPool2d(2), convolution(8, 8), relu(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        quant_nn.QuantLinear(8, 5, bias=True, weight_quant=Int8WeightPerTensorFloat, weight_bit_width=8),
    )  # fmt: skip


if __name__ == "__main__":
    for bits in (2, 4):
        torch.manual_seed(bits)
        made = network(bits)
        x = torch.randn(64, 1, 8, 8)
        made.train()(x)
        made.eval()
        name = f"brevitas_{bits}_bits"
        for kind, export in (("qonnx", export_qonnx), ("qcdq", export_onnx_qcdq)):
            export(made, args=x[:1], export_path=str(FOLDER / f"{name}_{kind}.onnx"), opset_version=17, dynamo=False)
