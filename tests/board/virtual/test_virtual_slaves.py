"""Slaves on the register bus: the kernel's protocol, the interrupt controller, decode and part words."""

from __future__ import annotations

import pytest
from virtual_designs import BASE, CONTROLLER, DMA, KERNEL, LINE, SPARE, AddOne, Design, Host

from bfpga.board.virtual.board import BusError
from bfpga.board.virtual.bus import AddressMap, PlainRegisters
from bfpga.board.virtual.faults import Faults
from bfpga.board.virtual.hls_slave import Argument, HlsSlave, is_own_kernel, own_arguments
from bfpga.contract.registers import ARGUMENT_REGISTERS, TOP_FUNCTION, offset_of
from bfpga.errors import DeviceError

START, DONE, IDLE, READY, AUTO_RESTART, INTERRUPT = 1, 2, 4, 8, 0x80, 0x200
GIER, IER, ISR, COUNT, TOTAL = 4, 8, 12, 0x10, 0x20


@pytest.fixture
def host() -> Host:
    return Host()


# Kernel


def test_an_idle_kernel_says_so(host: Host) -> None:
    assert host.read(KERNEL) == IDLE


def test_done_and_ready_are_cleared_by_reading(host: Host) -> None:
    host.start_kernel(0)
    assert host.read(KERNEL) == DONE | IDLE | READY
    assert host.read(KERNEL) == IDLE


def test_a_running_kernel_keeps_start_and_is_not_idle(host: Host) -> None:
    host.start_kernel(8)
    assert host.read(KERNEL) == START
    host.write(KERNEL, 0)
    assert host.read(KERNEL) == START, "writing 0 does not stop it"


def test_outputs_keep_their_value_until_the_kernel_finished(host: Host) -> None:
    host.run_channels()
    source = host.buffer(bytes([1, 2, 3, 4]))
    for expected, count in ((0, 4), (10, 4)):
        host.receive(host.buffer(4), 4)
        host.start_kernel(count)
        assert host.read(KERNEL + TOTAL) == expected
        host.send(source, 4)
    assert host.read(KERNEL + TOTAL) == 10


def test_the_valid_word_of_an_output_reads_one_once(host: Host) -> None:
    assert host.read(KERNEL + TOTAL + 4) == 0
    host.start_kernel(0)
    assert host.read(KERNEL + TOTAL + 4) == 1
    assert host.read(KERNEL + TOTAL + 4) == 0


def test_outputs_and_reserved_words_cannot_be_written(host: Host) -> None:
    host.write(KERNEL + TOTAL, 5)
    host.write(KERNEL + 0x80, 5)
    assert host.read(KERNEL + TOTAL) == host.read(KERNEL + 0x80) == 0


def test_arguments_read_back_and_take_part_words(host: Host) -> None:
    host.write(KERNEL + COUNT, 0x11223344)
    host.board.write(BASE["zynq7"] + COUNT + 1, b"\xaa\xbb")
    assert host.read(KERNEL + COUNT) == 0x11BBAA44
    assert host.board.read(BASE["zynq7"] + COUNT + 1, 2) == b"\xaa\xbb"


def test_interrupt_status_toggles_and_drives_the_pin(host: Host) -> None:
    kernel = host.board.fabric.kernels[0]
    host.start_kernel(0)
    assert host.read(KERNEL + ISR) == 0, "events need their enable"
    host.write(KERNEL + IER, 3)
    host.start_kernel(0)
    assert host.read(KERNEL + ISR) == 3
    assert not kernel.interrupt("interrupt")
    host.write(KERNEL + GIER, 1)
    assert kernel.interrupt("interrupt")
    assert host.read(KERNEL) & INTERRUPT
    host.write(KERNEL + ISR, 3)
    assert host.read(KERNEL + ISR) == 0
    assert not kernel.interrupt("interrupt")
    host.write(KERNEL + ISR, 1)
    assert host.read(KERNEL + ISR) == 1


def test_enables_have_the_width_of_the_protocol(host: Host) -> None:
    host.write(KERNEL + GIER, 0xFF)
    host.write(KERNEL + IER, 0xFF)
    assert (host.read(KERNEL + GIER), host.read(KERNEL + IER)) == (1, 3)


def test_auto_restart_runs_again_and_comes_to_rest(host: Host) -> None:
    host.run_channels()
    host.write(KERNEL + COUNT, 4)
    host.write(KERNEL, START | AUTO_RESTART)
    for _ in range(3):
        host.receive(host.buffer(4), 4)
        host.send(host.buffer(4), 4)
    assert host.kernel.starts == 4
    assert host.read(KERNEL) & (START | AUTO_RESTART) == START | AUTO_RESTART
    host.write(KERNEL + COUNT, 0)
    host.write(KERNEL, 0)
    host.receive(host.buffer(4), 4)
    host.send(host.buffer(4), 4)
    assert host.read(KERNEL) & START == 0


def test_auto_restart_of_a_run_without_data_ends(host: Host) -> None:
    host.write(KERNEL, START | AUTO_RESTART)
    assert host.kernel.starts == 1
    assert host.read(KERNEL) & DONE


def test_the_systolic_array_has_its_own_register_map() -> None:
    assert is_own_kernel(f"xilinx.com:hls:{TOP_FUNCTION}:1.0")
    assert not is_own_kernel("xilinx.com:hls:adder:1.0")
    arguments = {argument.name: argument for argument in own_arguments()}
    assert {register.name for register in ARGUMENT_REGISTERS} == set(arguments)
    assert arguments["cycles"] == Argument("cycles", offset_of("cycles"), output=True)
    assert not arguments["descriptor_count"].output


def test_64_bit_arguments_are_two_words() -> None:
    slave = HlsSlave("adder", [Argument("address", 0x10, bits=64), Argument("n", 0x1C)], AddOne(), Faults())
    slave.write(0x10, 0x89ABCDEF)
    slave.write(0x14, 0x01234567)
    slave.write(0x1C, 3)
    assert (slave.argument("address"), slave.argument("n")) == (0x0123456789ABCDEF, 3)


def test_a_result_without_a_register_is_the_models_mistake() -> None:
    slave = HlsSlave("adder", [Argument("count", 0x10)], AddOne(), Faults())
    slave.write(0, 1)
    with pytest.raises(DeviceError, match="gives a result `total`, which is no output register"):
        slave.step()


# Interrupt controller


def run_once(host: Host) -> None:
    host.receive(host.buffer(4), 4)
    host.start_kernel(4)
    host.send(host.buffer(4), 4)


def clear_sources(host: Host) -> None:
    host.write(DMA + 0x04, 0x1000)
    host.write(DMA + 0x34, 0x1000)


@pytest.mark.parametrize("family", ["zynq7", "zynqmp"])
def test_an_interrupt_reaches_the_processor_and_leaves(family: str) -> None:
    host = Host(Design(family))
    levels: list[bool] = []
    host.board.interrupt_listeners[LINE[family]] = levels.append
    host.run_channels(interrupts=0x1000)
    host.write(CONTROLLER + 0x08, 0b010)
    host.write(CONTROLLER + 0x1C, 3)
    run_once(host)
    assert levels == [True]
    assert host.read(CONTROLLER + 0x18) == 1
    clear_sources(host)
    assert levels == [True], "the status bit stays until it is acknowledged"
    host.write(CONTROLLER + 0x0C, 0b010)
    assert levels == [True, False]
    assert host.read(CONTROLLER + 0x18) == 0xFFFFFFFF


def test_a_level_that_still_holds_is_pending_again(host: Host) -> None:
    host.run_channels(interrupts=0x1000)
    host.write(CONTROLLER + 0x1C, 3)
    run_once(host)
    assert host.read(CONTROLLER) == 0b011
    host.write(CONTROLLER + 0x0C, 0b011)
    assert host.read(CONTROLLER) == 0b011


def test_an_edge_input_is_acknowledged_while_its_level_holds() -> None:
    host = Host(Design(controller={"C_KIND_OF_INTR": "0xFFFFFFFF"}))
    host.run_channels(interrupts=0x1000)
    host.write(CONTROLLER + 0x1C, 3)
    run_once(host)
    host.write(CONTROLLER + 0x0C, 0b011)
    assert host.read(CONTROLLER) == 0
    clear_sources(host)
    run_once(host)
    assert host.read(CONTROLLER) == 0b011


def test_enables_are_set_and_cleared_bit_by_bit(host: Host) -> None:
    host.write(CONTROLLER + 0x10, 0b101)
    host.write(CONTROLLER + 0x10, 0b010)
    host.write(CONTROLLER + 0x14, 0b100)
    assert host.read(CONTROLLER + 0x08) == 0b011
    host.write(CONTROLLER + 0x08, 0xFFFFFFFF)
    assert host.read(CONTROLLER + 0x08) == 0b111, "three inputs"


def test_pending_is_status_and_enable(host: Host) -> None:
    host.write(CONTROLLER + 0x00, 0b110)
    host.write(CONTROLLER + 0x08, 0b011)
    assert host.read(CONTROLLER + 0x04) == 0b010
    assert host.read(CONTROLLER + 0x18) == 1


def test_hardware_interrupts_need_their_enable_which_stays(host: Host) -> None:
    host.run_channels(interrupts=0x1000)
    run_once(host)
    assert host.read(CONTROLLER) == 0
    host.write(CONTROLLER + 0x1C, 2)
    assert host.read(CONTROLLER) == 0b011
    host.write(CONTROLLER + 0x1C, 1)
    assert host.read(CONTROLLER + 0x1C) == 3
    clear_sources(host)
    host.write(CONTROLLER + 0x0C, 0b011)
    host.write(CONTROLLER, 0b100)
    assert host.read(CONTROLLER) == 0, "no test writes once hardware drives the status"


def test_software_may_raise_the_line_for_a_test(host: Host) -> None:
    levels: list[bool] = []
    host.board.interrupt_listeners[61] = levels.append
    host.write(CONTROLLER + 0x08, 1)
    host.write(CONTROLLER + 0x1C, 1)
    host.write(CONTROLLER, 1)
    assert levels == [True]


# Bus


def test_unknown_slaves_are_plain_registers(host: Host) -> None:
    host.write(SPARE + 0x8, 0xDEADBEEF)
    assert host.read(SPARE + 0x8) == 0xDEADBEEF
    assert host.read(SPARE) == 0


@pytest.mark.parametrize(
    ("address", "nearest"),
    [(0x43C40000, "adder_spare at 0x43c30000 to 0x43c3ffff"), (0x43000000, "adder at 0x43c00000"), (0, "adder at")],
)
def test_an_access_without_slave_names_the_nearest(host: Host, address: int, nearest: str) -> None:
    with pytest.raises(BusError, match=f"no slave at {address:#010x}; the nearest is {nearest}"):
        host.board.read(address)
    with pytest.raises(BusError, match="no slave"):
        host.board.write(address, bytes(4))


def test_several_words_and_part_words_are_read(host: Host) -> None:
    host.board.write(BASE["zynq7"] + SPARE, bytes(range(12)))
    assert host.board.read(BASE["zynq7"] + SPARE, 12) == bytes(range(12))
    assert host.board.read(BASE["zynq7"] + SPARE + 5, 1) == b"\5"
    assert host.board.read(BASE["zynq7"] + SPARE + 6, 2) == b"\6\7"


@pytest.mark.parametrize(("offset", "length"), [(1, 4), (3, 2), (0, 0), (0, 6), (2, 8)])
def test_accesses_across_words_are_refused(host: Host, offset: int, length: int) -> None:
    with pytest.raises(BusError, match="whole aligned words"):
        host.board.read(BASE["zynq7"] + SPARE + offset, length)
    with pytest.raises(BusError, match="whole aligned words"):
        host.board.write(BASE["zynq7"] + SPARE + offset, bytes(length))


def test_overlapping_ranges_are_refused() -> None:
    address_map = AddressMap()
    address_map.add(0x1000, 0x1000, PlainRegisters("first"))
    with pytest.raises(DeviceError, match="overlap: second at 0x00001fff to 0x00001fff and first"):
        address_map.add(0x1FFF, 1, PlainRegisters("second"))
