"""The board as a whole: configuration, what it explains, stalls, threads, trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_designs import BASE, CONTROLLER, DMA, KERNEL, AddOne, Design, Host, plus_one

from bfpga.board.virtual.board import BoardStall, VirtualBoard
from bfpga.board.virtual.stream import Stream
from bfpga.errors import DeviceError

DATA = bytes(range(200))
QUIET = ["Nothing is under way: no transfer, no kernel, no data in a stream."]
INPUT, OUTPUT = "dma/M_AXIS_MM2S -> adder/input_stream", "adder/output_stream -> dma/S_AXIS_S2MM"


@settings(max_examples=drawn(40), deadline=None)
@given(
    data=st.binary(min_size=1, max_size=3000),
    stream_bytes=st.integers(1, 600),
    family=st.sampled_from(["zynq7", "zynqmp"]),
)
def test_any_size_through_any_stream(data: bytes, stream_bytes: int, family: str) -> None:
    host = Host(Design(family), stream_bytes=stream_bytes)
    assert host.add_one(data) == plus_one(data)
    assert host.board.explain() == QUIET
    host.board.close()


# Configuration


def test_an_unconfigured_board_says_so() -> None:
    board = VirtualBoard("zynq7", ddr_bytes=4096)
    assert board.explain() == ["The board is not configured: no design was downloaded."]
    with pytest.raises(DeviceError, match="not configured"):
        _ = board.hardware
    with pytest.raises(DeviceError, match="no slave at 0x43c00000; the nearest is slcr"):
        board.read(BASE["zynq7"])


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("versal", {}, "unknown family 'versal'"),
        ("zynq7", {"ddr_bytes": 1 << 30}, "zynq7 boards have room for at most 519,045,120 bytes"),
        ("zynq7", {"ddr_bytes": 0}, "a DDR pool of 0 bytes"),
        ("zynqmp", {"ddr_bytes": 5000}, "whole pages"),
    ],
)
def test_boards_that_do_not_exist(family: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        VirtualBoard(family, **options)  # type: ignore[arg-type]


def test_a_design_of_another_family_is_refused_and_the_board_keeps_its_own() -> None:
    host = Host()
    with pytest.raises(DeviceError, match="made for zynqmp, this virtual board is a zynq7"):
        host.board.configure(Design("zynqmp").text(), {})
    with pytest.raises(DeviceError, match="XML"):
        host.board.configure("<", {})
    assert host.add_one(DATA) == plus_one(DATA)


def test_a_kernel_without_a_place_is_refused() -> None:
    board = VirtualBoard("zynq7", ddr_bytes=4096)
    with pytest.raises(DeviceError, match=r"kernel `sub` has no registers in the design; instances .*: adder, "):
        board.configure(Design().text(), {"sub": AddOne()})


def test_a_kernel_whose_ports_are_not_connected_is_refused() -> None:
    class TwoInputs(AddOne):
        inputs = ("input_stream", "weight_stream")  # type: ignore[assignment]

    board = VirtualBoard("zynq7", ddr_bytes=4096)
    with pytest.raises(DeviceError, match=r"kernel `adder` that the design does not connect: \['weight_stream'\]"):
        board.configure(Design().text(), {"adder": TwoInputs()})


def test_configuring_again_resets_the_logic_closes_old_kernels_and_keeps_ddr() -> None:
    host = Host()
    physical = host.buffer(DATA)
    host.run_channels()
    host.send(physical, len(DATA))
    fresh = AddOne()
    host.board.configure(host.design.text(), {"adder": fresh})
    assert host.kernel.closed
    assert host.mm2s == 1
    assert host.ddr(physical, len(DATA)).tobytes() == DATA
    host.start_kernel(100)
    assert fresh.waiting == "stream `input_stream`: 100 more bytes"
    host.board.configure(host.design.text(), {"adder": fresh})
    assert not fresh.closed, "the same kernel goes on"
    assert fresh.finished, "but not the same run"


def test_closing_releases_kernels_once_and_twice() -> None:
    host = Host()
    host.board.close()
    host.board.close()
    assert host.kernel.closed


def test_a_data_fifo_adds_to_what_a_link_holds() -> None:
    host = Host(Design(fifo_depth=16), stream_bytes=64)
    assert host.board.fabric.streams[0].capacity == 128


# What it explains


def test_a_kernel_that_was_never_started() -> None:
    host = Host()
    host.run_channels()
    host.send(host.buffer(DATA), len(DATA))
    assert host.board.explain() == [
        f"`dma MM2S` has sent 64 of 200 bytes and cannot go on: the stream `{INPUT}` accepts no more (64 bytes wait in "
        "it).",
        f"Kernel `adder` was never started, and 64 bytes wait for it in `{INPUT}`.",
    ]


def test_a_receiver_that_was_not_armed() -> None:
    host = Host()
    host.run_channels()
    host.start_kernel(len(DATA))
    host.send(host.buffer(DATA), len(DATA))
    sentences = host.board.explain()
    assert "Kernel `adder` was started and has not finished; it waits: room in `output_stream`." in sentences
    assert f"64 bytes wait in `{OUTPUT}`, but `dma S2MM` is not armed: no receive transfer was started." in sentences


def test_a_kernel_that_waits_for_data_and_a_receiver_that_waits_for_it() -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(4096), 1000)
    host.start_kernel(100)
    host.send(host.buffer(DATA), 60)
    assert host.board.explain() == [
        f"`dma S2MM` has received 60 of at most 1,000 bytes and waits for more data or TLAST from `{OUTPUT}`.",
        "Kernel `adder` was started and has not finished; it waits: stream `input_stream`: 40 more bytes.",
    ]


def test_data_for_a_kernel_that_has_finished() -> None:
    host = Host()
    host.add_one(DATA)
    host.send(host.buffer(DATA), 20)
    assert host.board.explain() == [
        f"Kernel `adder` has finished and was not started again, and 20 bytes wait for it in `{INPUT}`."
    ]


def test_a_transfer_beyond_its_buffer() -> None:
    host = Host()
    target = host.buffer(4096)
    host.run_channels()
    host.receive(target + 4000, 200)
    host.start_kernel(200)
    host.send(host.buffer(DATA), 200)
    assert host.board.explain() == [
        f"`dma S2MM` wrote 200 bytes at {target + 4000:#x}, which are not inside one allocated buffer."
    ]


def test_a_dma_without_a_modelled_stream() -> None:
    text = Design().text().replace('BUSNAME="to_kernel" DATAWIDTH="32" NAME="M_AXIS', 'BUSNAME="x" NAME="M_AXIS')
    board = VirtualBoard("zynq7", ddr_bytes=4096)
    board.configure(text, {})
    for offset, value in ((0x00, 1), (0x18, board.memory.allocate(16)), (0x28, 16)):
        board.write(BASE["zynq7"] + DMA + offset, value.to_bytes(4, "little"))
    assert "is not connected to anything that is modelled" in board.explain()[0]


# Stalls


@pytest.mark.parametrize(
    ("offset", "sent"),
    [pytest.param(DMA + 0x04, 800, id="MM2S"), pytest.param(DMA + 0x34, 300, id="S2MM"), pytest.param(KERNEL, 300)],
)
def test_polling_what_cannot_change_is_a_stall(offset: int, sent: int) -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(4096), 4096)
    host.start_kernel(400)
    host.send(host.buffer(4096), sent)
    with pytest.raises(BoardStall, match=rf"register {BASE['zynq7'] + offset:#010x} was read 20 times and cannot"):
        host.poll(offset)


def test_a_stall_of_two_registers_in_turn_is_seen_too() -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(64), 64)
    host.send(host.buffer(DATA), 200)

    def wait_for_both() -> None:
        while not host.mm2s & host.s2mm & 2:
            pass

    with pytest.raises(BoardStall, match="was never started"):
        wait_for_both()


def test_waiting_for_a_done_that_was_read_already_is_a_stall_with_a_hint() -> None:
    host = Host()
    host.start_kernel(0)
    assert host.read(KERNEL) & 2
    with pytest.raises(BoardStall, match="AP_DONE of the last start was read already, and reading clears it"):
        host.poll(KERNEL)


def test_starting_a_channel_after_an_error_without_reset_is_a_stall() -> None:
    host = Host()
    host.run_channels()
    host.send(0, 0)
    host.run_channels()
    with pytest.raises(BoardStall, match="only a soft reset brings it back"):
        host.poll(DMA + 0x04)


def test_looking_at_what_is_idle_is_no_stall() -> None:
    host = Host()
    host.add_one(DATA)
    assert host.poll(DMA + 0x04) & 2
    assert host.poll(KERNEL + 0x20) == sum(DATA)


def test_any_write_begins_the_count_anew() -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(64), 64)
    for _ in range(10):
        host.poll(DMA + 0x34, reads=15)
        host.write(CONTROLLER + 0x08, 0)


def test_a_model_that_claims_progress_for_ever_is_found_out() -> None:
    class Restless(AddOne):
        def step(self, streams: Mapping[str, Stream]) -> bool:
            return True

    board = VirtualBoard("zynq7", ddr_bytes=4096)
    board.configure(Design().text(), {"adder": Restless()})
    board.write(BASE["zynq7"] + 0x10, (4).to_bytes(4, "little"))
    with pytest.raises(DeviceError, match="adder: claims to go on for ever without moving any data"):
        board.write(BASE["zynq7"], b"\1\0\0\0")


# Threads, trace, cache


def test_in_a_thread_the_program_really_waits() -> None:
    before = set(threading.enumerate())
    host = Host(threaded=True, latency=0.5)
    done = threading.Event()
    host.board.interrupt_listeners[61] = lambda level: done.set() if level else None
    host.write(CONTROLLER + 0x08, 0b010)
    host.write(CONTROLLER + 0x1C, 3)
    target = host.buffer(len(DATA))
    host.run_channels(interrupts=0x1000)
    host.receive(target, len(DATA))
    host.start_kernel(len(DATA))
    host.send(host.buffer(DATA), len(DATA))
    assert host.s2mm & 2 == 0
    assert done.wait(10)
    assert host.ddr(target, len(DATA)).tobytes() == plus_one(DATA)
    host.board.close()
    assert not set(threading.enumerate()) - before


def test_a_stall_is_seen_in_a_thread_too() -> None:
    host = Host(threaded=True)
    host.run_channels()
    host.receive(host.buffer(64), 64)

    def wait() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end and not host.s2mm & 2:
            pass

    with pytest.raises(BoardStall, match="waits for more data or TLAST"):
        wait()
    host.board.close()


def test_an_error_in_the_thread_reaches_the_program() -> None:
    class Broken(AddOne):
        def step(self, streams: Mapping[str, Stream]) -> bool:
            raise DeviceError("the model broke")

    board = VirtualBoard("zynq7", ddr_bytes=4096, threaded=True)
    board.configure(Design().text(), {"adder": Broken()})
    board.write(BASE["zynq7"] + 0x10, b"\1\0\0\0")
    board.write(BASE["zynq7"], b"\1\0\0\0")

    def look() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            board.read(BASE["zynq7"] + 0x10)

    with pytest.raises(DeviceError, match="the model broke"):
        look()
    board.close()


def test_several_threads_may_use_a_board() -> None:
    host = Host()
    errors: list[BaseException] = []

    def use(offset: int) -> None:
        try:
            for value in range(200):
                host.write(CONTROLLER + 0x10000 + offset, value)
                assert host.read(CONTROLLER + 0x10000 + offset) == value
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(4 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors


def test_the_trace_keeps_the_last_accesses() -> None:
    host = Host(trace=2)
    host.write(KERNEL + 0x10, 5)
    host.write(KERNEL + 0x10, 6)
    host.read(KERNEL + 0x10)
    assert [(a.kind, a.address, a.value, a.instance) for a in host.board.trace] == [
        ("write", BASE["zynq7"] + 0x10, 6, "adder"),
        ("read", BASE["zynq7"] + 0x10, 6, "adder"),
    ]
    assert not Host().board.trace


def test_evictions_reveal_a_receive_buffer_that_is_dirty() -> None:
    """Cleared by the processor, not flushed: the cache may write the zeros over what the DMA received."""
    host = Host(eviction_seed=1)
    target = host.board.memory.allocate(64)
    view = host.board.memory.cached_view(target, 64)
    host.run_channels()
    host.receive(target, 64)
    host.start_kernel(64)
    host.send(host.buffer(DATA), 64)
    assert host.ddr(target, 64).tobytes() == plus_one(DATA[:64])
    view.data[:] = 9
    host.board.run()
    assert (host.ddr(target, 64) == 9).all()


def test_reset_of_the_fabric_forgets_everything_but_ddr() -> None:
    host = Host()
    physical = host.buffer(DATA)
    host.run_channels()
    host.start_kernel(100)
    host.send(physical, 200)
    host.board.reset_fabric()
    assert host.board.explain() == QUIET
    assert host.read(KERNEL) == 4
    assert host.add_one(DATA) == plus_one(DATA)
