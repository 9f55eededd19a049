"""The real PYNQ on a virtual board: stock classes, both families, cache, interrupts, several devices in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pynq = pytest.importorskip("pynq")

from pynq_designs import (  # noqa: E402
    IDENTIFICATION,
    flip,
    flipping_kernel,
    handoff_text,
    random_bytes,
    start_kernel,
    write_design,
)

from bfpga.board.virtual import pynq_internals  # noqa: E402
from bfpga.board.virtual.board import VirtualBoard  # noqa: E402
from bfpga.board.virtual.pynq_device import VirtualDevice, virtual_device  # noqa: E402
from bfpga.contract.registers import REGISTERS, offset_of  # noqa: E402
from bfpga.errors import DeviceError  # noqa: E402

pytestmark = pytest.mark.board
FAMILIES = ("zynq7", "zynqmp")
CLOCKS = pytest.mark.skipif(not pynq_internals.clocks_follow_device(), reason="Clocks of PYNQ 3.0 need a board")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., tuple[Any, VirtualDevice]]]:
    """Makes an overlay on a new device; devices are closed and must have got all buffers back."""
    devices: list[VirtualDevice] = []

    def made(family: Any = "zynq7", name: str = "design", board: Any = None, **design: Any) -> tuple[Any, Any]:
        device = virtual_device(family, board, kernels=flipping_kernel)
        devices.append(device)
        return pynq.Overlay(write_design(tmp_path / name, family, **design), device=device), device

    yield made
    for device in devices:
        device.close()
    gc.collect()
    assert [device.board.memory.buffers for device in devices] == [{} for _ in devices]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", [64, 4096, 300_000])
def test_stock_classes_move_data_through_the_kernel(make: Any, family: str, count: int) -> None:
    overlay, device = make(family)
    assert type(overlay) is pynq.Overlay
    assert type(overlay.tensor_dma) is pynq.lib.dma.DMA
    data = random_bytes(count // 64 * 64)
    for _ in range(3):
        np.testing.assert_array_equal(flip(overlay, device, data), ~data)
    assert overlay.tensor_dma.recvchannel.transferred == len(data)


def test_scatter_gather(make: Any) -> None:
    """PYNQ splits the transfer into descriptors of less than 16 KiB in memory."""

    def edit(text: str) -> str:
        assert 'NAME="c_include_sg" VALUE="0"' in text
        text = text.replace('NAME="c_include_sg" VALUE="0"', 'NAME="c_include_sg" VALUE="1"')
        return text.replace('NAME="c_sg_length_width" VALUE="26"', 'NAME="c_sg_length_width" VALUE="14"')

    overlay, device = make(edit=edit)
    data = random_bytes(100_000)
    np.testing.assert_array_equal(flip(overlay, device, data), ~data)
    assert overlay.tensor_dma.recvchannel.transferred == len(data)


@pytest.mark.parametrize("family", FAMILIES)
def test_register_map_has_the_registers_of_the_kernel(make: Any, family: str) -> None:
    overlay, _ = make(family)
    registers = overlay.accelerator.register_map
    assert {register.name for register in REGISTERS} <= set(dir(registers))
    registers.descriptor_count = 0
    registers.CTRL.AP_START = 1
    assert int(registers.identification) == IDENTIFICATION
    assert overlay.accelerator.read(offset_of("identification")) == IDENTIFICATION
    assert overlay.accelerator.mmio.read(offset_of("cycles")) == 0


def test_a_missing_flush_and_a_missing_invalidate_are_visible(make: Any) -> None:
    """Registers instead of the DMA's own calls, which flush and invalidate."""
    overlay, device = make()
    source, target = (device.allocate(64, np.uint8, cacheable=1) for _ in range(2))

    def run() -> None:
        registers = overlay.tensor_dma.mmio
        for base, buffer in ((0x30, target), (0x00, source)):
            registers.write(base, 1)
            registers.write(base + 0x18, buffer.device_address)
            registers.write(base + 0x28, buffer.nbytes)
        start_kernel(overlay, 64)

    source[:] = 5
    run()
    assert (target == 0).all()
    target.invalidate()
    assert (target == 0xFF).all(), "the kernel saw the zeros of DDR"
    source.flush()
    run()
    assert (target == 0xFF).all()
    target.invalidate()
    assert (target == (5 ^ 0xFF)).all()
    source.freebuffer()
    target.freebuffer()


def test_buffers_without_cache_are_the_memory_itself(make: Any) -> None:
    _, device = make()
    buffer = device.allocate((4, 8), np.int32)
    buffer[:] = -7
    assert (device.board.memory.view(buffer.device_address, 128).view(np.int32) == -7).all()
    device.board.memory.view(buffer.device_address, 128)[:] = 0
    assert (buffer == 0).all()
    buffer.freebuffer()


def test_a_slice_has_its_own_address_and_flushes_its_own_lines(make: Any) -> None:
    _, device = make()
    buffer = device.allocate(1024, np.uint32, cacheable=1)
    buffer[:] = 1
    part = buffer[256:512]
    assert part.device_address == buffer.device_address + 1024
    part.flush()
    memory = device.board.memory.view(buffer.device_address, 4096).view(np.uint32)
    assert (memory[:256] == 0).all()
    assert (memory[256:512] == 1).all()
    assert (memory[512:] == 0).all()
    del part
    buffer.freebuffer()


def test_buffers_return_to_the_pool(make: Any) -> None:
    _, device = make()
    free = device.board.memory.free_bytes
    size = free // 4
    for cacheable in (0, 1, 0, 1, 0, 1):
        with pynq.allocate(size, np.uint8, cacheable=cacheable) as buffer:
            assert buffer.nbytes == size
            buffer.freebuffer()
            buffer.freebuffer()
    kept = pynq.allocate(10)
    del kept
    gc.collect()
    assert device.board.memory.free_bytes == free


@CLOCKS
@pytest.mark.parametrize("family", FAMILIES)
def test_programming_sets_the_clock_of_the_design(make: Any, family: str) -> None:
    overlay, _ = make(family)
    expected = {"zynq7": 100.0, "zynqmp": 187.5}[family]
    assert pynq.Clocks.fclk0_mhz == pytest.approx(expected, rel=0.01)
    pynq.Clocks.fclk0_mhz = 50
    assert pynq.Clocks.fclk0_mhz == pytest.approx(50, rel=0.01)
    overlay.download()
    assert pynq.Clocks.fclk0_mhz == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_interrupts_wake_coroutines(make: Any, family: str, threaded: bool) -> None:
    """R79: interrupt on done. With the threaded board the event loop is free while the hardware works."""
    board = VirtualBoard(family, threaded=threaded, latency=0.2)  # type: ignore[arg-type]
    overlay, device = make(family, board=board)
    dma, kernel = overlay.tensor_dma, overlay.accelerator
    assert type(kernel.interrupt) is pynq.Interrupt
    data = random_bytes(5056)
    source, target = (device.allocate(len(data), np.uint8, cacheable=1) for _ in range(2))
    source[:] = data

    async def main() -> int:
        kernel.write(offset_of("GIER"), 1)
        kernel.write(offset_of("IP_IER"), 1)
        dma.recvchannel.transfer(target)
        start_kernel(overlay, len(data))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.002)

        counting = asyncio.ensure_future(count_turns())
        dma.sendchannel.transfer(source)
        waits = (dma.sendchannel.wait_async(), dma.recvchannel.wait_async(), kernel.interrupt.wait())
        await asyncio.wait_for(asyncio.gather(*waits), 10)
        counting.cancel()
        return turns

    turns = asyncio.run(main())
    np.testing.assert_array_equal(target, ~data)
    assert turns >= (4 if threaded else 0)
    source.freebuffer()
    target.freebuffer()
    board.close()


def test_an_interrupt_of_a_loop_that_is_gone_disturbs_nobody(make: Any) -> None:
    overlay, device = make()
    data = random_bytes(64)

    async def give_up() -> None:
        overlay.accelerator.write(offset_of("GIER"), 1)
        overlay.accelerator.write(offset_of("IP_IER"), 1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(overlay.accelerator.interrupt.wait(), 0.01)

    asyncio.run(give_up())
    np.testing.assert_array_equal(flip(overlay, device, data), ~data)


def test_a_new_overlay_takes_the_place_of_the_old(make: Any, tmp_path: Path) -> None:
    first, device = make(mask=0x01)
    data = random_bytes(640)
    np.testing.assert_array_equal(flip(first, device, data), data ^ 0x01)
    second = pynq.Overlay(write_design(tmp_path / "second", mask=0x80), device=device)
    np.testing.assert_array_equal(flip(second, device, data), data ^ 0x80)
    assert second.is_loaded()
    assert not first.is_loaded()
    third = pynq.Overlay(first.bitfile_name, device=device)
    np.testing.assert_array_equal(flip(third, device, data), data ^ 0x01)


def test_an_overlay_can_be_looked_at_without_programming(make: Any, tmp_path: Path) -> None:
    first, device = make(mask=0x01)
    pynq.Overlay(write_design(tmp_path / "other", mask=0x80), device=device, download=False)
    data = random_bytes(64)
    np.testing.assert_array_equal(flip(first, device, data), data ^ 0x01)


def test_devices_of_both_families_work_one_after_another(make: Any) -> None:
    """Nothing of the first device is left in what PYNQ keeps for the whole process."""
    data = random_bytes(6400)
    for turn, family in enumerate(("zynq7", "zynqmp", "zynq7")):
        overlay, device = make(family, name=f"design{turn}", mask=turn + 1)
        np.testing.assert_array_equal(flip(overlay, device, data), data ^ (turn + 1))
        assert pynq.Device.active_device is device
        if pynq_internals.clocks_follow_device():
            expected = {"zynq7": 100.0, "zynqmp": 187.5}[family]
            assert pynq.Clocks.fclk0_mhz == pytest.approx(expected, rel=0.01)
        asyncio.run(asyncio.wait_for(_kernel_interrupt(overlay), 5))


async def _kernel_interrupt(overlay: Any) -> None:
    overlay.accelerator.write(offset_of("GIER"), 1)
    overlay.accelerator.write(offset_of("IP_IER"), 1)
    start_kernel(overlay, 0)
    await overlay.accelerator.interrupt.wait()


def test_closing_a_device_leaves_no_interrupt_lines(make: Any) -> None:
    _, device = make()
    assert pynq_internals.interrupt_lines()
    device.close()
    assert not pynq_internals.interrupt_lines()
    assert not device.board.interrupt_listeners


@pytest.mark.parametrize("design", ["resizer", "rfsoc_sam"])
def test_a_handoff_of_vivado_loads_with_registers_alone(tmp_path: Path, design: str) -> None:
    """The designs that come with PYNQ's metadata package."""
    import pynqmetadata

    source = Path(pynqmetadata.__file__).parent / "tests" / "hwhs" / f"{design}.hwh"
    family = "zynq7" if design == "resizer" else "zynqmp"
    handoff = tmp_path / f"{design}.hwh"
    handoff.write_bytes(source.read_bytes())
    with virtual_device(family) as device:  # type: ignore[arg-type]
        overlay = pynq.Overlay(str(handoff), device=device)
        assert overlay.is_loaded()
        name = {"resizer": "resize_accel_0", "rfsoc_sam": "radio/transmitter/channel_00/control"}[design]
        base = overlay.ip_dict[name]["phys_addr"]
        pynq.MMIO(base, 0x40, device=device).write(0x10, 77)
        assert pynq.MMIO(base, 0x40, device=device).read(0x10) == 77


def test_device_tree_overlays_are_noted(tmp_path: Path) -> None:
    bitfile = write_design(tmp_path / "design")
    (tmp_path / "design.dtbo").write_bytes(b"")
    with virtual_device("zynq7", kernels=flipping_kernel) as device:
        overlay = pynq.Overlay(bitfile, device=device)
        assert device.devicetree_dict == {"design": str(tmp_path / "design.dtbo")}
        overlay.free()
        assert device.devicetree_dict == {}


def test_bad_designs_are_refused(tmp_path: Path) -> None:
    bitfile = Path(write_design(tmp_path / "design"))
    with virtual_device("zynq7", kernels=flipping_kernel) as device:
        content = bitfile.read_bytes()
        bitfile.write_bytes(content[:-8])
        with pytest.raises(DeviceError, match="promises"):
            pynq.Overlay(str(bitfile), device=device)
        bitfile.write_bytes(content)
        bitstream = pynq.Bitstream(str(bitfile), partial=True, device=device)
        with pytest.raises(DeviceError, match="partial"):
            bitstream.download()
        bitfile.with_suffix(".hwh").unlink()
        with pytest.raises(RuntimeError, match="Unable to find metadata"):
            pynq.Overlay(str(bitfile), device=device)
        with pytest.raises(OSError, match="does not exist"):
            pynq.Overlay(str(tmp_path / "missing.bit"), device=device)


def test_a_bitstream_without_overlay_programs_too(tmp_path: Path) -> None:
    with virtual_device("zynq7", kernels=flipping_kernel) as device:
        pynq.Bitstream(write_design(tmp_path / "design", mask=3), device=device).download()
        overlay = pynq.Overlay(str(tmp_path / "design.bit"), download=False, device=device)
        data = random_bytes(64)
        np.testing.assert_array_equal(flip(overlay, device, data), data ^ 3)


def test_a_design_of_the_other_family_is_refused(tmp_path: Path) -> None:
    bitfile = write_design(tmp_path / "design", "zynqmp")
    with virtual_device("zynq7", kernels=flipping_kernel) as device, pytest.raises(DeviceError, match="zynq"):
        pynq.Bitstream(bitfile, device=device).download()


def test_a_kernel_that_cannot_be_made_leaves_the_board_as_it_was(tmp_path: Path) -> None:
    def refuse(description: Any) -> Any:
        raise DeviceError("no such kernel")

    with virtual_device("zynq7", kernels=flipping_kernel) as device:
        overlay = pynq.Overlay(write_design(tmp_path / "first", mask=9), device=device)
        other = VirtualDevice(device.board, "Pynq-Z2", refuse)
        with pytest.raises(DeviceError, match="no such kernel"):
            pynq.Overlay(write_design(tmp_path / "second"), device=other)
        data = random_bytes(64)
        np.testing.assert_array_equal(flip(overlay, device, data), data ^ 9)


def test_the_board_must_be_of_the_family() -> None:
    with pytest.raises(DeviceError, match="zynqmp"):
        virtual_device("zynq7", VirtualBoard("zynqmp"))


def in_new_process(script: str, **environment: str) -> str:
    """What a script prints to standard output; warnings of our import would be errors."""
    paths = os.pathsep.join(["host", "hls", "tests", os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": paths} | environment,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.strip()


OPEN = "from bfpga.board.virtual.pynq_device import virtual_device; device = virtual_device('zynq7')"


def test_a_device_opens_without_a_word_of_warning() -> None:
    assert in_new_process(f"{OPEN}; import pynq; print(pynq.Device.active_device is device)") == "True"


def test_variables_for_boards_do_not_mislead_and_stay_as_they_are() -> None:
    """A sourced Vitis sets XILINX_XRT, with which PYNQ 3.0.1 would load a library of boards."""
    show = "import os, pynq; print(os.environ['XILINX_XRT'], pynq.Interrupt.__module__)"
    given = {"XILINX_XRT": "/opt/xilinx/xrt", "PYNQ_REMOTE_DEVICES": "192.0.2.1"}
    assert in_new_process(f"{OPEN}; {show}", **given) == "/opt/xilinx/xrt pynq.interrupt"


def test_a_missing_pynq_is_an_error_that_says_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['pynq'] = None\n"
        "from bfpga.errors import DeviceError\n"
        "try:\n    import bfpga.board.virtual.pynq_device\n"
        "except DeviceError as error:\n    print(error)"
    )
    assert in_new_process(script) == f"PYNQ is not installed: {pynq_internals.install_advice()}"


def test_numpy_2_is_refused_before_pynq_breaks_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "2.1.0")
    with pytest.raises(DeviceError, match=r"numpy 1 and this is numpy 2\.1\.0"):
        pynq_internals.import_pynq()


def test_the_handoff_of_the_tests_is_read_without_warnings(tmp_path: Path) -> None:
    path = tmp_path / "design.hwh"
    path.write_text(handoff_text())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        parser = pynq_internals.metadata_parser(path)
    assert {"accelerator", "tensor_dma", "weight_dma", "interrupt_controller"} <= set(parser.ip_dict)
