"""Designs and host code for tests of PYNQ on virtual boards: our block design around a kernel of a few lines."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import board_fixtures
import numpy as np
import numpy.typing as npt

from bfpga.board.virtual.bitfile import write_emulation_bitstream
from bfpga.board.virtual.kernel_model import OperationTime
from bfpga.board.virtual.stream import Stream
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM, Control, offset_of

#: An accelerator of each family.
ACCELERATORS = {"zynq7": "tiny", "zynqmp": "zcu104_dense"}
#: What a flipping kernel reports as its identification; bit 31 is set.
IDENTIFICATION = 0xC0FFEE01
Bytes = npt.NDArray[np.uint8]


class FlippingKernel:
    """Passes `descriptor_count` bytes through, every byte exclusive-or ``mask``, as one packet."""

    inputs = (INPUT_STREAM, WEIGHT_STREAM)
    outputs = (OUTPUT_STREAM,)

    def __init__(self, mask: int) -> None:
        self.mask = mask
        self.total = self.left = 0
        self.closed = False

    def start(self, arguments: Mapping[str, int]) -> None:
        self.total = self.left = arguments["descriptor_count"]

    def step(self, streams: Mapping[str, Stream]) -> bool:
        source, sink = streams[INPUT_STREAM], streams[OUTPUT_STREAM]
        data, _ = source.pop(min(self.left, sink.space))
        self.left -= len(data)
        if len(data):
            assert sink.push(data ^ np.uint8(self.mask), self.left == 0) == len(data)
        return len(data) > 0

    @property
    def finished(self) -> bool:
        return self.left == 0

    @property
    def waiting(self) -> str | None:
        return f"stream `{INPUT_STREAM}`: {self.left} more bytes" if self.left else None

    def results(self) -> dict[str, int]:
        return {"cycles": self.total, "identification": IDENTIFICATION}

    def operations(self) -> tuple[OperationTime, ...]:
        return ()

    def reset(self) -> None:
        self.left = 0

    def close(self) -> None:
        self.closed = True


def flipping_kernel(description: Mapping[str, Any]) -> FlippingKernel:
    """A kernel from its description in the bitstream."""
    return FlippingKernel(description["mask"])


def handoff_text(family: str = "zynq7") -> str:
    """The hardware handoff of a design of a family."""
    (path,) = board_fixtures.overlay_directory(ACCELERATORS[family]).glob("*.hwh")
    return path.read_text()


def write_design(
    stem: Path, family: str = "zynq7", mask: int = 0xFF, edit: Callable[[str], str] = lambda text: text
) -> str:
    """Write `.bit` and `.hwh` of a design with a flipping kernel; the name of the bitstream. ``edit``: the handoff."""
    handoff = edit(handoff_text(family))
    stem.with_suffix(".hwh").write_text(handoff)
    write_emulation_bitstream(stem.with_suffix(".bit"), handoff, {"accelerator": {"mask": mask}})
    return str(stem.with_suffix(".bit"))


def start_kernel(overlay: Any, count: int) -> None:
    """Let the kernel pass ``count`` bytes."""
    overlay.accelerator.write(offset_of("descriptor_count"), count)
    overlay.accelerator.write(offset_of("CTRL"), int(Control.START))


def flip(overlay: Any, device: Any, data: Bytes, **options: Any) -> Bytes:
    """The data after its way through DMA and kernel, by nothing but PYNQ's own classes."""
    import pynq

    dma = overlay.tensor_dma
    source = pynq.allocate(data.shape, np.uint8, target=device, cacheable=1, **options)
    target = pynq.allocate(data.shape, np.uint8, target=device, cacheable=1, **options)
    source[:] = data
    dma.recvchannel.transfer(target)
    start_kernel(overlay, len(data))
    dma.sendchannel.transfer(source)
    dma.sendchannel.wait()
    dma.recvchannel.wait()
    result = np.array(target)
    source.freebuffer()
    target.freebuffer()
    return result


def random_bytes(count: int, seed: int = 0) -> Bytes:
    """Test data."""
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@contextmanager
def pynq_state() -> Iterator[None]:
    """PYNQ's remote client keeps the state of its board in files of the installed package: one test at a time."""
    with open(Path(tempfile.gettempdir()) / "bfpga_tests_pynq_state.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
