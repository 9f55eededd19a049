"""A network with QKeras' quantizers, as QONNX converts it.

    python make_qkeras.py

Needs tensorflow 2.14, qkeras, pyparsing before 3.2, tf2onnx and qonnx 0.4, the last with converters; the versions
that made the file here stand in README.md.
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from qkeras import QActivation, QConv2D, QDense, quantized_bits, quantized_relu
from qonnx.converters import from_keras
from tensorflow.keras import layers

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    tf.keras.utils.set_random_seed(1)
    weights = {"kernel_quantizer": quantized_bits(4, 0, alpha=1), "bias_quantizer": quantized_bits(8, 2, alpha=1)}
    network = tf.keras.Sequential([
        layers.Input((8, 8, 1)), QConv2D(8, 3, padding="same", **weights), QActivation(quantized_relu(4, 2)),
        QConv2D(8, 3, padding="same", **weights), QActivation(quantized_relu(4, 2)), layers.Flatten(),
        QDense(5, **weights),
    ])  # fmt: skip
    model, _ = from_keras(network, opset=13)
    (FOLDER / "qkeras_4_bits.onnx").write_bytes(model.SerializeToString())
