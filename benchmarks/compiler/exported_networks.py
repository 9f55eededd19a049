"""Networks of the table that are files: Brevitas' own exports of networks trained on digits (tests/data/brevitas)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from benchmarks.common.command import BREVITAS, EXAMPLES
from benchmarks.compiler.network_zoo import Member
from bfpga.data import load_samples

FORMS = {"qonnx": "QONNX", "qcdq": "QCDQ"}


@dataclass(frozen=True)
class Exported:
    """A network of 8x8 digits in a file."""

    path: Path

    def model(self) -> onnx.ModelProto:
        return onnx.load(self.path)

    def samples(self, count: int = 6) -> dict[str, np.ndarray]:
        digits = load_samples(EXAMPLES / "digits_test.npz").x[:count]
        return {self.model().graph.input[0].name: np.asarray(digits, np.float32)}


def _member(path: Path) -> Member:
    inside, _, form = path.stem.rpartition("_")
    family = f"quantized network (Brevitas, {FORMS[form]}), {inside.replace('_', ' ')}"
    return Member(f"brevitas_{path.stem}", family, partial(Exported, path))


EXPORTED = tuple(_member(path) for path in sorted(BREVITAS.glob("*.onnx")))
