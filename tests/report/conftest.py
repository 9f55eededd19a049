"""Reports that several tests look at, each made once by the command itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from bfpga.cli import main

MODELS = Path(__file__).parents[2] / "examples" / "models"

PROCESSES = "tiny"


def made(folder: Path, name: str, *words: str) -> Path:
    target = folder / f"{name}.html"
    assert main([*words, str(target)]) == 0
    return target


@pytest.fixture(scope="session")
def dense_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an accelerator whose loops are kept in the package."""
    model, data = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")
    folder = tmp_path_factory.mktemp("dense")
    return made(folder, "dense", "report", model, "-a", "tiny", "-d", data, "-n", "60", "-o")


@pytest.fixture(scope="session")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an array and a sparse cluster, each with two recipes."""
    model, data = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")
    folder = tmp_path_factory.mktemp("comparison")
    recipes = ("-r", "adaptive", "-r", "uncalibrated")
    words = ("compare", model, "-a", PROCESSES, "-a", "zcu104_cluster", *recipes, "-d", data)
    return made(folder, "comparison", *words, "-n", "40", "--json", str(folder / "comparison.json"), "-o")


@pytest.fixture(scope="session")
def sparse_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an accelerator whose units skip zeros of inputs, with samples that tell how many there are."""
    model, data = str(MODELS / "lenet_mnist_pruned90.onnx"), str(MODELS / "mnist_test.npz")
    folder = tmp_path_factory.mktemp("sparse")
    words = ("evaluate", model, "-a", "zcu104_cluster", "-d", data, "-n", "20")
    return made(folder, "sparse", *words, "--report")
