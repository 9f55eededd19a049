"""Files of a toolkit of another layout: a copy of the package with a field, a number and a register elsewhere.

The copy runs in a process of its own, as an earlier version would have, and leaves what a user may still have of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Module -> (text, text of the other layout).
CHANGES = {
    "contract/descriptor.py": [
        ("    kernel_width: int = 1\n    stride_y: int = 1\n", "    stride_y: int = 1\n    kernel_width: int = 1\n"),
        ("    MAX = 5  #", "    MAX = 6  #"),
        ("    SUM = 6  #", "    SUM = 5  #"),
    ],
    "contract/registers.py": [('"cycles", 0x30', '"cycles", 0xB0')],
}
#: What a message says of these changes.
DIFFERENCES = (
    "descriptor word 9 is `kernel_width` here and `stride_y` there",
    "descriptor word 10 is `stride_y` here and `kernel_width` there",
    "`Operation.MAX` is 5 here and 6 there",
    "`Operation.SUM` is 6 here and 5 there",
    "the offset of register `cycles` is `0x30` here and `0xb0` there",
)
_SCRIPT = """
import json, sys
from pathlib import Path

from bfpga.accelerator.loader import load_accelerator
from bfpga.board.overlays import load_overlay, staged_files
from bfpga.devices.csim import build
from bfpga.program.file import save_program
from bfpga.runtime import compile
from bfpga.vendor.overlay_files import OverlayBuild, write_overlay

folder, model, tiny = Path(sys.argv[1]), sys.argv[2], load_accelerator("tiny")
write_overlay(tiny, folder / "overlay")
staged = staged_files(load_overlay(folder / "overlay"), folder / "staged", virtual=True)
write_overlay(tiny, folder / "built", OverlayBuild(staged.bitstream, staged.handoff, {}, {}, {}))
save_program(compile(model, tiny), folder / "network.program")
library = build(tiny.config, "native", tiny.name, tiny.digest, ("-O0",))
print(json.dumps({"digest": tiny.digest, "bitstream": str(staged.bitstream), "library": str(library)}))
"""


@dataclass(frozen=True)
class OtherToolkit:
    """What it has made for `tiny`; ``built``: an overlay with a bitstream, ``bitstream``: for a virtual board."""

    digest: str
    overlay: Path
    built: Path
    bitstream: Path
    program: Path
    library: Path


def run_other_toolkit(folder: Path) -> OtherToolkit:
    """Let a toolkit of another layout write its files into ``folder``."""
    package = folder / "host" / "bfpga"
    shutil.copytree(ROOT / "host" / "bfpga", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "configs").symlink_to(ROOT / "configs")
    for module, changes in CHANGES.items():
        text = (package / module).read_text()
        for old, new in changes:
            assert text.count(old) == 1, f"{module} has {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        (package / module).write_text(text)
    model = ROOT / "examples" / "models" / "mlp_digits.onnx"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package.parent), str(ROOT / "hls")])}
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(folder), str(model)], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    made = json.loads(result.stdout)
    return OtherToolkit(
        digest=made["digest"],
        overlay=folder / "overlay",
        built=folder / "built",
        bitstream=Path(made["bitstream"]),
        program=folder / "network.program",
        library=Path(made["library"]),
    )
