"""What fine-tuning in an array's numbers gains: ResNet-8 on shift units, a small MobileNet with SiLU at 8 bits.

    BFPGA_MODELS=FOLDER python -m benchmarks.training.fine_tuning [--part resnet mobilenet]

Needs PyTorch. ResNet-8 has the weights of the folder's file and learns from its 300 training images of CIFAR-10,
mirrored and moved: the float network's scores are what it is to give, for 300 labels would be too few. It is judged on
2,000 test images. The MobileNet is trained first, in float, on 3,000 of the MNIST images of the folder, then fine-tuned
on the same; 2,000 others judge it. All accuracies but float's are the emulator's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import perf_counter

from benchmarks.common.command import command, required_models_folder

#: Steps of fine-tuning.
STEPS = {"resnet": 250, "mobilenet": 200}


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--part", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--steps", type=int, help="of fine-tuning, of 50 images each")
    arguments, begun = parser.parse_args(given), perf_counter()
    folder = required_models_folder()
    from benchmarks.training import fine_tuned

    print("| network | accelerator | weights | float | rounded | compiled as usual | fine-tuned | seconds |\n"
          "|---|---|---|---|---|---|---|---|")
    for name in arguments.part:
        getattr(fine_tuned, name)(folder, arguments.steps or STEPS[name])
    print(f"{perf_counter() - begun:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
