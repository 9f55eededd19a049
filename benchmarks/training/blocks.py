"""What exponents for blocks of channels give networks that are fine-tuned for four bits: one table, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.training.blocks IMAGES [--network NAME ...] [--steps N] [--keep FOLDER]

Needs PyTorch and Pillow; IMAGES as in `benchmarks.training.four_bits`, ResNet-8 and DS-CNN from FOLDER. A MobileNet and
a transformer are trained first (--keep: once). Weights have 4 bits, values 5, as on `pynq_z2_quad`, or 8 and 8; images
7, as in four parts. Operands of products are rounded and nothing else, as `bfpga research blocks` does. The 10,000 test
images judge; of DS-CNN every second recording, each also three frames earlier and later, and the others train it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.command import command, required_models_folder
from benchmarks.training.four_bits import check_images

NAMES = ("ResNet-8", "DS-CNN", "MobileNet", "transformer")
#: Of fine-tuning, of 128 samples each.
STEPS = 600


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("images", type=Path, help="folder of the training images")
    parser.add_argument("--network", nargs="+", default=NAMES, choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--steps", type=int, default=STEPS, help="of fine-tuning, of 128 samples each")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of networks that are trained here")
    arguments, folder = parser.parse_args(given), required_models_folder()
    check_images(parser, arguments.images)
    from benchmarks.training.fine_tuned_blocks import cases, head, row

    print(f"| {' | '.join(head())} |\n|{'---|' * len(head())}", flush=True)
    for name, case in cases(folder, arguments.images, arguments.keep).items():
        if name in arguments.network:
            print(f"| {' | '.join(row(name, case(), arguments.steps))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
