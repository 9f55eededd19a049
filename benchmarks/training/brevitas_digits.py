"""Networks of 8x8 digits, trained with Brevitas and exported as QONNX and QCDQ, with PyTorch's own results.

    python -m benchmarks.training.brevitas_digits [-o FOLDER]

Needs the packages brevitas, onnxscript, onnxoptimizer, scikit-learn and torch, which nothing else here needs. It made
the files of tests/data/brevitas; training is repeatable up to the versions of these (brevitas 0.13.4, torch 2).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.command import BREVITAS, EXAMPLES, command

#: Mini-batch, epochs, and from which epoch on the steps are small.
BATCH, EPOCHS, FINE = 64, 14, 9
#: Results of PyTorch that are kept.
ANSWERS = 32


@dataclass(frozen=True)
class Variant:
    """Bits of inner weights and activations; whether the steps of all quantizers are powers of two."""

    name: str
    bits: int
    powers_of_two: bool


VARIANTS = (Variant("four_bits", 4, False), Variant("two_bits", 2, False), Variant("powers_of_two", 8, True))


def network(variant: Variant) -> Any:
    """Two convolutions and a fully connected layer; weights per channel where the steps may be any."""
    from brevitas import nn as quant_nn
    from brevitas.core.restrict_val import RestrictValueType
    from brevitas.quant import (
        Int8ActPerTensorFloat,
        Int8WeightPerChannelFloat,
        Int8WeightPerTensorFloat,
        Uint8ActPerTensorFloat,
    )
    from torch import nn

    power = RestrictValueType.POWER_OF_TWO
    step = {"restrict_scaling_type": power if variant.powers_of_two else RestrictValueType.LOG_FP}
    weights = {"weight_restrict_scaling_type": power} if variant.powers_of_two else {}
    inner = Int8WeightPerTensorFloat if variant.powers_of_two else Int8WeightPerChannelFloat

    def convolution(inputs: int, outputs: int, bits: int) -> Any:
        quant = {"weight_quant": inner, "weight_bit_width": bits, **weights}
        return quant_nn.QuantConv2d(inputs, outputs, 3, padding=1, **quant)

    def relu() -> Any:
        return quant_nn.QuantReLU(act_quant=Uint8ActPerTensorFloat, bit_width=variant.bits, **step)

    return nn.Sequential(
        quant_nn.QuantIdentity(act_quant=Int8ActPerTensorFloat, bit_width=8, **step),
        convolution(1, 8, 8), relu(), nn.MaxPool2d(2), convolution(8, 16, variant.bits), relu(), nn.MaxPool2d(2),
        nn.Flatten(), quant_nn.QuantLinear(64, 10, bias=True, weight_quant=Int8WeightPerTensorFloat, **weights),
    )  # fmt: skip


def training_digits(held: Any) -> tuple[Any, Any]:
    """Digits of scikit-learn without those of the test: images 0..1, labels."""
    import torch
    from sklearn.datasets import load_digits

    digits = load_digits()
    tested = {image.tobytes() for image in held}
    kept = [i for i, image in enumerate(digits.images.astype(np.uint8)) if image[None].tobytes() not in tested]
    images = torch.tensor(digits.images[kept, None] / 16, dtype=torch.float32)
    return images, torch.tensor(digits.target[kept])


def train(net: Any, x: Any, y: Any) -> None:
    """Adam on cross entropy."""
    import torch

    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for epoch in range(EPOCHS):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 if epoch < FINE else 5e-4
        for part in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            optimizer.step()
    net.eval()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    import torch
    from brevitas.export import export_onnx_qcdq, export_qonnx

    torch.set_num_threads(1)
    with np.load(EXAMPLES / "digits_test.npz") as file:
        test, labels = file["x"], file["y"]
    x, y = training_digits(test)
    answers = {}
    for variant in VARIANTS:
        torch.manual_seed(1)
        net = network(variant)
        train(net, x, y)
        with torch.no_grad():
            scores = net(torch.tensor(test / 16, dtype=torch.float32))
        own = getattr(scores, "value", scores).numpy()
        answers[variant.name] = own[:ANSWERS]
        print(f"{variant.name}: {(own.argmax(1) == labels).mean():.1%} of {len(labels)} digits")
        for kind, export in (("qonnx", export_qonnx), ("qcdq", export_onnx_qcdq)):
            path = str(options.output / f"{variant.name}_{kind}.onnx")
            export(net, args=torch.zeros(1, 1, 8, 8), export_path=path, opset_version=15, dynamo=False)
    np.savez_compressed(options.output / "answers.npz", **answers)
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command(__doc__)
    parser.add_argument("-o", "--output", type=Path, default=BREVITAS, metavar="FOLDER")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
