"""A network as the tutorial on fine-tuning exports it, with a few samples and the scores of the module in float64.

    python make.py

Runs the first listing of docs/tutorials/fine-tune.md in the repository's root. Needs PyTorch (2.13.0 made the files).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bfpga.compiler.read.frameworks import export_network

FOLDER = Path(__file__).resolve().parent
#: Samples that are kept: what the tutorial does not train with begins at 400.
KEPT = slice(400, 420)

if __name__ == "__main__":
    os.chdir(FOLDER.parents[2])
    names: dict[str, Any] = {}
    page = Path("docs/tutorials/fine-tune.md").read_text()
    listing = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(listing[0], names)
    export_network(names["tuned"], FOLDER / "tutorial.onnx", names["x"])
    x = names["x"][KEPT]
    with torch.no_grad():
        y = names["tuned"].double().eval()(x.double())
    np.savez_compressed(FOLDER / "tutorial.npz", x=x.numpy(), y=y.numpy())
