"""Accuracy of trained networks that compute on the chip what others leave to the host: 8 bits against float.

    python -m benchmarks.compiler.trained [--images FILE] [--write]

The networks of tests/data/trained, which PyTorch trained and exported, on `pynq_z2_transformer`: digits that ONNX
Runtime finds in float and that the emulator finds, whose bits are those of the kernel. --images: an NPZ with images and
digits; without it the 5,000 test images of BFPGA_MODELS, or the 500 of the examples. --write renews the table of
docs/transformers.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import bfpga
from benchmarks.common.command import ROOT, command
from benchmarks.common.report import table, write_file
from benchmarks.compiler.network_table import with_section
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.read.network import read_network
from bfpga.data import load_samples
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.estimate.sample import estimate_sample
from bfpga.program.host import host_nodes

PAGE = ROOT / "docs" / "transformers.md"
FOLDER = ROOT / "tests" / "data" / "trained"
EXAMPLES = ROOT / "examples" / "models"
IMAGES = Path(os.environ.get("BFPGA_MODELS", "models")) / "data" / "mnist_test_even.npz"
NETWORKS = ("mnist_vit", "mnist_gru", "mnist_silu_se")
HEADINGS = ("network", "MAC", "images", "right in float", "right with 8 bits", "points", "alike", "samples/s",
            "on the host")  # fmt: skip


def rows(images: Path) -> Iterator[tuple[str, ...]]:
    """A line for each network."""
    accelerator, given = load_accelerator("pynq_z2_transformer"), load_samples(images)
    calibration = load_samples(EXAMPLES / "mnist_calibration.npz").x
    for name in NETWORKS:
        network = read_network(FOLDER / f"{name}.onnx")
        shape = network.inputs["x"]
        program = bfpga.compile(network, accelerator, calibration.reshape(-1, *shape))
        judged = bfpga.evaluate(program, network, given.x.reshape(-1, *shape), given.y)
        estimate = estimate_sample(accelerator, program, estimate_resources(accelerator.config).total)
        macs = sum(getattr(node, "macs", 0) for node in program.nodes)
        host = sum(len(node.operators) for node in host_nodes(program))
        assert judged.accuracy is not None
        assert judged.float_accuracy is not None
        yield (
            name, f"{macs:,}", f"{judged.samples:,}", f"{100 * judged.float_accuracy:.2f} %",
            f"{100 * judged.accuracy:.2f} %", f"{100 * (judged.accuracy - judged.float_accuracy):+.2f}",
            f"{100 * judged.agreement:.2f} %", f"{1 / estimate.seconds:,.0f}",
            f"{host} operators" if host else "nothing",
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    fallback = IMAGES if IMAGES.exists() else EXAMPLES / "mnist_test.npz"
    parser.add_argument("--images", type=Path, default=fallback, help="NPZ with x and y")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/transformers.md")
    given = parser.parse_args(arguments)
    text = table(HEADINGS, list(rows(given.images)))
    print(text)
    if given.write:
        write_file(PAGE, with_section(PAGE.read_text(encoding="utf-8"), "accuracy", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
