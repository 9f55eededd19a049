"""A kernel on a virtual board: the handoff's six IPs behind one model, and mistakes in their wires."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from process_designs import TINY
from pynq_designs import FlippingKernel
from virtual_designs import Host

from bfpga.accelerator.loader import load_accelerator
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.hardware import read_hardware
from bfpga.board.virtual.kernel_processes import process_cells
from bfpga.contract.process_stream import PROCESSES, ProcessStream
from bfpga.contract.processes import process_function, process_streams
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.errors import DeviceError
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.handoff import render_handoff

STREAMS = process_streams(load_accelerator(TINY).config)


class Model(FlippingKernel):
    """A kernel that states streams between its processes."""

    def __init__(self, between: tuple[ProcessStream, ...] = STREAMS) -> None:
        super().__init__(0xFF)
        self.between = between


def design(name: str = TINY) -> BlockDesign:
    return block_design(load_accelerator(name))


def configured(text: str, model: FlippingKernel | None = None) -> VirtualBoard:
    board = VirtualBoard("zynq7")
    board.configure(text, {"accelerator": model or Model()})
    return board


def replaced(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    """An edit of a handoff that holds what it replaces."""

    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, count)

    return edit


@pytest.mark.parametrize("name", [TINY, "pynq_z2_dense"])
def test_the_streams_of_the_host_lead_to_the_kernel_that_stands_for_all_processes(name: str) -> None:
    board = configured(render_handoff(design(name)), Model(process_streams(load_accelerator(name).config)))
    assert board.fabric is not None
    (kernel,) = board.fabric.kernels
    assert kernel.name == "accelerator"
    assert kernel.streams.keys() == {INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM}
    assert {stream.ends for stream in board.fabric.streams} == {
        ("tensor_dma/M_AXIS_MM2S", f"accelerator/{INPUT_STREAM}"),
        ("weight_dma/M_AXIS_MM2S", f"weights/{WEIGHT_STREAM}"),
        (f"store/{OUTPUT_STREAM}", "tensor_dma/S_AXIS_S2MM"),
    }


def test_links_of_the_handoff_are_the_streams_of_the_processes() -> None:
    hardware = read_hardware(render_handoff(design()))
    cells = process_cells(hardware, "accelerator")
    assert cells == {process: "accelerator" if process == "sequencer" else process for process in PROCESSES}
    inner = [link for link in hardware.streams if link.source in cells.values() and link.sink in cells.values()]
    found = {(link.source_port, link.source, link.sink, link.beat_bytes, link.sink_bytes) for link in inner}
    assert found == {(s.name, cells[s.source], cells[s.target], s.octets, s.octets) for s in STREAMS}
    depths = {stream.name: stream.depth for stream in STREAMS}
    assert all(link.buffer_bytes >= depths[link.source_port] * link.beat_bytes for link in inner)


def test_data_go_from_dma_to_dma_through_the_processes() -> None:
    """Registers and channels as a driver of a kernel of one IP uses them."""
    board = configured(render_handoff(design()))
    data = np.random.default_rng(0).integers(0, 256, 640, np.uint8)
    base = {segment.slave: segment.base for segment in design().segments if segment.usage == "register"}
    kernel, dma = base["accelerator/s_axi_control"], base["tensor_dma/S_AXI_LITE"]
    source, target = board.memory.allocate(len(data)), board.memory.allocate(len(data))
    view = board.memory.view(source, len(data))
    assert view is not None
    view[:] = data
    writes = [(dma + 0x30, 1), (dma, 1), (dma + 0x48, target), (dma + 0x58, len(data)), (kernel + 0x10, len(data)),
              (kernel, 1), (dma + 0x18, source), (dma + 0x28, len(data))]  # fmt: skip
    for address, value in writes:
        board.write(address, value.to_bytes(4, "little"))
    assert int.from_bytes(board.read(kernel), "little") & 2, "done"
    result = board.memory.view(target, len(data))
    assert result is not None
    np.testing.assert_array_equal(result, data ^ 0xFF)


WRONG = [
    # edit of the handoff, what is said
    (replaced('BUSNAME="sums_fifo_M_AXIS"', 'BUSNAME="none"'), "`array/sums` leads nowhere, must lead to `post/sums`"),
    (replaced('BUSNAME="scratchpad_operands"', 'BUSNAME="nothing"'), "`scratchpad/operands` leads nowhere"),
    (
        lambda text: re.sub(
            r'BUSNAME="(exponents|stored)_fifo_M_AXIS"(?= NAME="(?:exponents|stored)")',
            lambda found: f'BUSNAME="{"stored" if found[1] == "exponents" else "exponents"}_fifo_M_AXIS"',
            text,
        ),
        "`post/exponents` leads to `store/stored`, must lead to `store/exponents`",
    ),
    (
        replaced('NAME="FIFO_DEPTH" VALUE="512"', 'NAME="FIFO_DEPTH" VALUE="256"'),
        "`accelerator/scratchpad_commands` has FIFOs of 256 words, must have 352",
    ),
    (
        replaced('NAME="TDATA_NUM_BYTES" VALUE="9"', 'NAME="TDATA_NUM_BYTES" VALUE="8"'),
        "`weights/weight_words` carries 8 bytes of `weight_words`, must carry 9",
    ),
    (replaced("bfpga_store:1.0", "bfpga_keep:1.0"), "no cell is bfpga_store, the store of `accelerator`"),
    (replaced("bfpga_store:1.0", "bfpga_post:1.0"), "two cells are the post of a kernel: post, store"),
    (replaced(f'NAME="{WEIGHT_STREAM}"', 'NAME="words"', 2), f"`weights/{WEIGHT_STREAM}` is not connected"),
]


@pytest.mark.parametrize(("edit", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_a_design_that_would_not_work_on_a_board_is_refused_with_what_is_wrong(
    edit: Callable[[str], str], said: str
) -> None:
    text = render_handoff(design())
    assert edit(text) != text
    with pytest.raises(DeviceError, match=re.escape(said)):
        configured(edit(text))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_every_missing_stream_is_named(stream: ProcessStream) -> None:
    text = replaced(f'BUSNAME="{stream.name}_fifo_M_AXIS"', 'BUSNAME="nothing"')(render_handoff(design()))
    with pytest.raises(DeviceError, match=rf"/{stream.name}` leads nowhere"):
        configured(text)


def test_a_design_with_the_sequencer_alone_is_told_every_process_that_it_lacks() -> None:
    text = render_handoff(design())
    for process in PROCESSES[1:]:
        text = text.replace(f":{process_function(process)}:", ":another:")
    with pytest.raises(DeviceError) as error:
        configured(text)
    assert all(f"no cell is {process_function(process)}," in str(error.value) for process in PROCESSES[1:])


def test_a_board_that_refuses_a_design_keeps_what_it_had() -> None:
    host = Host()
    with pytest.raises(DeviceError):
        host.board.configure(WRONG[0][0](render_handoff(design())), {"accelerator": Model()})
    assert host.add_one(bytes(range(100))) == bytes(range(1, 101))
