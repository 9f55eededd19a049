"""Small networks as Keras 3 exports them (TensorFlow backend, by tf2onnx).

    python make_keras.py

Needs tensorflow-cpu and tf2onnx; the versions that made the files here stand in README.md. Weights are random, from a
fixed seed.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from keras import layers

FOLDER = Path(__file__).parent


def normalization() -> keras.Sequential:
    """Statistics of the data in the network itself."""
    scaled = layers.Normalization(axis=-1)
    scaled.adapt(np.random.default_rng(0).normal(3.0, 2.0, (64, 6)).astype(np.float32))
    return keras.Sequential([keras.Input((6,)), scaled, layers.Dense(8, "relu"), layers.Dense(3)])


def separable() -> keras.Sequential:
    """Separable convolutions, channels last."""
    return keras.Sequential([
        keras.Input((12, 12, 3)), layers.SeparableConv2D(8, 3, padding="same", activation="relu"),
        layers.BatchNormalization(), layers.SeparableConv2D(8, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(), layers.Dense(5, "softmax"),
    ])  # fmt: skip


NETWORKS = {
    "keras_lstm": lambda: keras.Sequential([keras.Input((6, 6)), layers.LSTM(8), layers.Dense(5)]),
    "keras_gru": lambda: keras.Sequential([keras.Input((6, 6)), layers.GRU(8), layers.Dense(5)]),
    "keras_separable": separable,
    "keras_normalization": normalization,
}

if __name__ == "__main__":
    for name, build in NETWORKS.items():
        keras.utils.set_random_seed(1)
        network = build()
        network(np.zeros((1, *network.input_shape[1:]), np.float32))
        network.export(FOLDER / f"{name}.onnx", format="onnx", verbose=False)
