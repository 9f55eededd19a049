"""Perceptrons of scikit-learn as skl2onnx converts them.

    python make_sklearn.py

Needs scikit-learn and skl2onnx; the versions that made the files here stand in README.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_regression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    x, classes = make_classification(200, 8, n_informative=5, n_classes=3, random_state=0)
    _, values = make_regression(200, 8, random_state=0)
    x = x.astype(np.float32)
    settings = {"hidden_layer_sizes": (12, 8), "max_iter": 300, "random_state": 0}
    classifier = make_pipeline(StandardScaler(), MLPClassifier(**settings)).fit(x, classes)
    regressor = MLPRegressor(**settings).fit(x, values / np.abs(values).max())
    for name, network in (("classifier", classifier), ("regressor", regressor)):
        (FOLDER / f"sklearn_{name}.onnx").write_bytes(to_onnx(network, x[:1]).SerializeToString())
    labels = MLPClassifier(**settings).fit(x, np.array(["low", "middle", "high"])[classes])
    (FOLDER / "sklearn_text_labels.onnx").write_bytes(to_onnx(labels, x[:1]).SerializeToString())
