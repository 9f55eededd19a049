"""The command line that all benchmarks share: options, the folder of real networks, the shipped ones."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Shipped networks and samples.
EXAMPLES = ROOT / "examples" / "models"
#: Some benchmarks run the harnesses of the tests.
TEST_SUPPORT = ROOT / "tests" / "support"
#: Networks that Brevitas exported.
BREVITAS = ROOT / "tests" / "data" / "brevitas"


def command(documentation: str | None, output: str = "") -> argparse.ArgumentParser:
    """A parser whose help is the text of the benchmark; ``output``: option that names a file, such as ``--json``."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    if output:
        parser.add_argument(output, type=Path, metavar="FILE", help="write the results to FILE too")
    return parser


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Options of benchmarks whose parts may be computed side by side, for `bfpga.scale.choice.open_workers`."""
    parser.add_argument("--workers", type=int, metavar="N", help="share the work among N processes of this machine")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="share it among the workers of a Dask scheduler")


def models_folder() -> Path | None:
    """$BFPGA_MODELS, the folder that has models/ and data/, or None."""
    folder = os.environ.get("BFPGA_MODELS")
    return Path(folder) if folder else None


def required_models_folder() -> Path:
    """$BFPGA_MODELS; ends the benchmark with status 2 if it is not set."""
    folder = models_folder()
    if folder is None:
        print("set BFPGA_MODELS to the folder that has models/ and data/", file=sys.stderr)
        raise SystemExit(2)
    return folder
