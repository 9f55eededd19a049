"""A virtual remote board: PYNQ's own client over gRPC, here and in another process, and a lost connection."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pynq = pytest.importorskip("pynq")
grpc = pytest.importorskip("grpc")
pytest.importorskip("pynq.remote", reason="PYNQ before 3.1 has no remote boards")

from pynq_designs import (  # noqa: E402
    IDENTIFICATION,
    flip,
    flipping_kernel,
    pynq_state,
    random_bytes,
    start_kernel,
    write_design,
)

from bfpga.board.errors import BoardError  # noqa: E402
from bfpga.board.remote import RemoteTarget  # noqa: E402
from bfpga.board.remote_token import TOKEN_KEY, TOKEN_VARIABLE  # noqa: E402
from bfpga.board.virtual import remote_server, remote_services  # noqa: E402
from bfpga.board.virtual.bitfile import write_emulation_bitstream  # noqa: E402
from bfpga.board.virtual.board import VirtualBoard  # noqa: E402
from bfpga.board.virtual.pynq_device import virtual_device  # noqa: E402
from bfpga.board.virtual.pynq_internals import import_pynq, release_clocks  # noqa: E402
from bfpga.board.virtual.remote_server import RemoteBoardServer, is_loopback, main  # noqa: E402
from bfpga.contract.configuration import KernelConfig  # noqa: E402
from bfpga.contract.layout import layout  # noqa: E402
from bfpga.contract.registers import offset_of  # noqa: E402
from bfpga.engines.configurations import config_to_dict  # noqa: E402
from bfpga.errors import DeviceError  # noqa: E402

pytestmark = pytest.mark.board
FAMILIES = ("zynq7", "zynqmp")
ROOT = Path(__file__).parents[3]
#: Offsets of the DMA's registers that hold addresses of buffers.
ADDRESSES = {0x18, 0x1C, 0x48, 0x4C}


@pytest.fixture(autouse=True)
def _one_client_at_a_time() -> Iterator[None]:
    with pynq_state():
        yield


@contextmanager
def serving(family: Any = "zynqmp") -> Iterator[RemoteBoardServer]:
    with RemoteBoardServer(VirtualBoard(family), kernels=flipping_kernel) as server:
        yield server


def remote_device(port: int) -> Any:
    """PYNQ's own client, the active device of PYNQ. Its buffers are copied by `np.array`: in 3.1 they have no views."""
    import_pynq()
    device = importlib.import_module("pynq.pl_server.remote_device").RemoteDevice(0, "127.0.0.1", port)
    pynq.Device.active_device = device
    release_clocks()
    return device


def load(bitfile: str, device: Any) -> Any:
    """An overlay; PYNQ 4.0.0 needs help with the clocks of Zynq-7000 (it does not support these boards any more)."""
    overlay = pynq.Overlay(bitfile, device=device, download=False)
    for clock in overlay.clock_dict.values():
        if "frequency" in clock and clock["frequency"] is None:
            clock["frequency"] = 100.0
    overlay.download()
    return overlay


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore:Interrupt")
def test_stock_client_moves_data_through_the_kernel(tmp_path: Path, family: str) -> None:
    with serving(family) as server:
        device = remote_device(server.port)
        assert device.arch == {"zynq7": "armv7l", "zynqmp": "aarch64"}[family]
        assert device.name == {"zynq7": "Pynq-Z2", "zynqmp": "ZCU104"}[family]
        overlay = load(write_design(tmp_path / f"remote_{family}", family), device)
        assert type(overlay.tensor_dma) is pynq.lib.dma.DMA
        for count in (64, 6400, 5 << 20):
            data = random_bytes(count)
            np.testing.assert_array_equal(flip(overlay, device, data), ~data)
        expected = {"zynq7": 100.0, "zynqmp": 187.5}[family]
        assert pynq.Clocks.fclk0_mhz == pytest.approx(expected, rel=0.01)
        assert overlay.accelerator.read(offset_of("identification")) & 0xFFFFFFFF == IDENTIFICATION


@pytest.mark.filterwarnings("ignore:Interrupt")
def test_a_second_overlay_programs_the_board_anew(tmp_path: Path) -> None:
    with serving() as server:
        device = remote_device(server.port)
        data = random_bytes(640)
        for mask in (1, 2):
            overlay = load(write_design(tmp_path / f"again_{mask}", "zynqmp", mask), device)
            np.testing.assert_array_equal(flip(overlay, device, data), data ^ mask)


@pytest.mark.filterwarnings("ignore:Interrupt")
def test_register_traffic_is_that_of_the_board_in_process(tmp_path: Path) -> None:
    """The same host code does the same accesses in the same order; only buffers lie elsewhere."""
    bitfile, data = write_design(tmp_path / "traffic", "zynqmp"), random_bytes(6400)
    boards = [VirtualBoard("zynqmp", trace=1000) for _ in range(2)]
    with RemoteBoardServer(boards[1], kernels=flipping_kernel) as server:
        local = virtual_device("zynqmp", boards[0], kernels=flipping_kernel)
        for device, board in zip((local, remote_device(server.port)), boards, strict=True):
            pynq.Device.active_device = device
            release_clocks()
            overlay = load(bitfile, device)
            flip(overlay, device, data)
            board.trace.clear()
            flip(overlay, device, data)
        local.close()
    traces = [[(*a[:2], a[2] if a[1] & 0xFF not in ADDRESSES else 0) for a in map(astuple, b.trace)] for b in boards]
    assert len(traces[0]) > 10
    assert traces[0] == traces[1]


def test_buffers_have_a_cache_on_the_board(tmp_path: Path) -> None:
    with serving() as server:
        device = remote_device(server.port)
        memory = server.board.memory
        with device.allocate(4096, np.uint8) as buffer:
            physical = buffer.device_address
            buffer[:] = 7
            assert (memory.view(physical, 4096) == 0).all()
            buffer.flush()
            assert (memory.view(physical, 4096) == 7).all()
            memory.view(physical, 4096)[:] = 9
            assert (np.array(buffer) == 7).all()
            buffer.invalidate()
            assert (np.array(buffer) == 9).all()
            assert memory.buffers == {physical: 4096}
        assert memory.buffers == {}


def test_stopping_the_server_returns_what_clients_left() -> None:
    with serving() as server:
        buffer = remote_device(server.port).allocate(100, np.uint8)
        assert server.board.memory.buffers
    assert server.board.memory.buffers == {}
    buffer.freed = True


@pytest.mark.filterwarnings("ignore:Interrupt")
def test_errors_of_the_board_reach_the_client_with_their_text(tmp_path: Path) -> None:
    with serving() as server:
        device = remote_device(server.port)
        with pytest.raises(RuntimeError, match=r"BusError: no slave at 0x12340000"):
            pynq.MMIO(0x12340000, 16, device=device).read(0)
        with pytest.raises(RuntimeError, match=r"BusError: no slave at 0x12340000"):
            pynq.MMIO(0x12340000, 16, device=device).write(0, 1)
        with pytest.raises(RuntimeError, match="leave the range of 0x10 bytes"):
            pynq.MMIO(0x12340000, 16, device=device).read(16)
        overlay = load(write_design(tmp_path / "stall", "zynqmp"), device)
        buffer = device.allocate(1 << 16, np.uint8)
        overlay.tensor_dma.sendchannel.transfer(buffer)
        with pytest.raises(RuntimeError, match=r"(?s)BoardStall: .*accelerator"):
            overlay.tensor_dma.sendchannel.wait()
        buffer.freebuffer()
        with pytest.raises(RuntimeError, match="freed"):
            _ = buffer.physical_address
        with pytest.raises(grpc.RpcError, match="no room for a buffer"):
            device.allocate(server.board.memory.size + 1, np.uint8)


def test_files_and_programming_errors(tmp_path: Path) -> None:
    with serving() as server:
        device = remote_device(server.port)
        device.write_file("/lib/firmware/noise.bin", bytes(100))
        assert device.read_file("/lib/firmware/noise.bin") == bytes(100)
        firmware = "/sys/class/fpga_manager/fpga0/firmware"
        with pytest.raises(grpc.RpcError, match=r"noise\.bin: not a bitstream"):
            device.write_file(firmware, b"noise.bin")
        assert device.read_file("/sys/class/fpga_manager/fpga0/state") == b"write error\n"
        with pytest.raises(grpc.RpcError, match=r"missing\.bin: no such file"):
            device.write_file(firmware, b"missing.bin")
        with pytest.raises(grpc.RpcError, match="/etc/passwd: no such file"):
            device.read_file("/etc/passwd")
        device.write_file("/sys/class/fpga_manager/fpga0/flags", b"1")
        with pytest.raises(grpc.RpcError, match="partial"):
            device.write_file(firmware, b"noise.bin")


@pytest.mark.filterwarnings("ignore:Interrupt")
def test_firmware_of_the_same_name_is_not_sent_again(tmp_path: Path) -> None:
    """A pitfall of PYNQ.remote that content-hashed names avoid (Xilinx/PYNQ issue 1545)."""
    with serving() as server:
        device = remote_device(server.port)
        data = random_bytes(64)
        for mask in (1, 2):
            overlay = load(write_design(tmp_path / "same", "zynqmp", mask), device)
            np.testing.assert_array_equal(flip(overlay, device, data), data ^ 1)


@pytest.mark.filterwarnings("ignore:Interrupt")
def test_a_lost_connection_is_an_error_and_the_board_is_there_afterwards(tmp_path: Path) -> None:
    with serving() as server:
        device = remote_device(server.port)
        overlay = load(write_design(tmp_path / "lost", "zynqmp"), device)
        data, port = random_bytes(640), server.port
        server.drop_connections()
        with pytest.raises(grpc.RpcError) as error:
            start_kernel(overlay, 0)
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        server.resume()
        assert server.port == port
        grpc.channel_ready_future(device.client.channel).result(timeout=20)
        np.testing.assert_array_equal(flip(overlay, device, data), ~data)


def test_a_port_serves_one_board() -> None:
    with serving() as server, pytest.raises(DeviceError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        RemoteBoardServer(VirtualBoard("zynqmp"), port=server.port)


CLIENT = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import pynq
from pynq.pl_server.remote_device import RemoteDevice
device = pynq.Device.active_device = RemoteDevice(0, "127.0.0.1", int(sys.argv[1]))
overlay = pynq.Overlay(sys.argv[2])
source, target = (pynq.allocate(6400, np.uint8) for _ in range(2))
source[:] = np.arange(6400) % 251
overlay.tensor_dma.recvchannel.transfer(target)
overlay.accelerator.write(0x10, 6400)
overlay.accelerator.write(0, 1)
overlay.tensor_dma.sendchannel.transfer(source)
overlay.tensor_dma.sendchannel.wait()
overlay.tensor_dma.recvchannel.wait()
assert (np.array(target) == ~np.array(source)).all()
assert not any(name.startswith("bfpga") for name in sys.modules)
print("flipped")
"""


def test_a_client_in_another_process_needs_nothing_of_ours(tmp_path: Path) -> None:
    with serving() as server:
        command = [sys.executable, "-c", CLIENT, str(server.port), write_design(tmp_path / "other", "zynqmp")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.strip() == "flipped", result.stderr


def test_the_self_test_of_pynq(tmp_path: Path) -> None:
    """PYNQ 4.0 brings one for remote boards: files, buffers, download of an overlay. Our design has no GPIO to test."""
    if find_spec("pynq.remote.selftest") is None:
        pytest.skip("PYNQ before 4.0 has no self-test")
    with serving() as server:
        command = [sys.executable, "-m", "pynq.remote.selftest", "--ip", "127.0.0.1", "--port", str(server.port)]
        command += ["--bitstream", write_design(tmp_path / "selftest", "zynqmp")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert [line for line in lines if "[FAIL]" in line] == ["[FAIL] no AXI GPIO in the overlay to MMIO-test"]
    assert "[PASS] downloaded selftest.bit and programmed the PL" in lines
    assert "summary: 10 passed, 1 failed, 0 skipped" in lines


def server_process(*options: str, **variables: str) -> subprocess.Popen[str]:
    """The command on a free port."""
    command = [sys.executable, "-m", "bfpga.board.virtual.remote_server", "--port", "0", *options]
    paths = os.pathsep.join([str(ROOT / "host"), str(ROOT / "hls"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths} | variables
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("family", ["zynq7", pytest.param("zynqmp", marks=pytest.mark.slow)])
def test_a_server_in_another_process(family: str) -> None:
    """The command serves until it is told to end, on a port that it prints; PYNQ's own client carries no token."""
    process = server_process("--family", family, "--open")
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(f"virtual {family} board serves PYNQ.remote on 127.0.0.1:")
        device = remote_device(int(line.rsplit(":", 1)[1]))
        with device.allocate(64, np.uint8) as buffer:
            buffer[:] = 5
            buffer.flush()
            buffer[:] = 0
            buffer.invalidate()
            assert (np.array(buffer) == 5).all()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait(timeout=20)
    with pytest.raises(grpc.RpcError):
        device.exists_file("/proc/version")


# Who is served, and what one may leave there


#: A call of each kind of every service: service, module of its messages, name, request.
CALLS = (
    ("remote_device", "RemoteDevice", "existsfile", "ExistsFileRequest", {"file_path": "/proc/version"}),
    ("remote_device", "RemoteDevice", "readfile", "ReadFileRequest", {"file_path": "/proc/version"}),
    ("remote_device", "RemoteDevice", "writefile", "WriteFileRequest", {"file_path": "/x", "data": b"x"}),
    ("mmio", "Mmio", "get_mmio", "GetMmioRequest", {"base_addr": 0, "length": 4}),
    ("buffer", "RemoteBuffer", "allocate", "AllocateRequest", {"size": 64}),
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[1]}.{call[2]}")
def test_every_call_needs_the_token(call: tuple[str, str, str, str, dict[str, Any]]) -> None:
    module, service, method, request, fields = call
    messages = importlib.import_module(f"pynq.remote.{module}_pb2")
    stubs = importlib.import_module(f"pynq.remote.{module}_pb2_grpc")
    with (
        RemoteBoardServer(VirtualBoard("zynqmp"), token="secret") as server,
        grpc.insecure_channel(f"{server.host}:{server.port}") as channel,
    ):

        def answer(*metadata: tuple[str, str]) -> Any:
            sent = getattr(messages, request)(**fields)
            given = getattr(getattr(stubs, f"{service}Stub")(channel), method)(
                iter([sent]) if method == "writefile" else sent, metadata=metadata, timeout=10
            )
            return list(given) if method == "readfile" else given

        for metadata in ((), ((TOKEN_KEY, "secre"),), ((TOKEN_KEY, "secret2"),), (("token", "secret"),)):
            with pytest.raises(grpc.RpcError) as refused:
                answer(*metadata)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert "set BFPGA_TOKEN" in refused.value.details()
        assert server._services.files._files.get("/x") is None
        assert answer((TOKEN_KEY, "secret"))


def test_our_client_carries_the_token_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with RemoteBoardServer(VirtualBoard("zynqmp"), token="secret") as server:
        for wrong in ("", "other"):
            monkeypatch.setenv(TOKEN_VARIABLE, wrong)
            with pytest.raises(BoardError, match="asks for its token: set BFPGA_TOKEN"):
                RemoteTarget("remote", server.host, server.port)
        monkeypatch.setenv(TOKEN_VARIABLE, "secret")
        target = RemoteTarget("remote", server.host, server.port)
        assert target.emulated
        server.drop_connections()
        server.resume()
        target.reconnect()
        assert target.device.name == "ZCU104"
        target.close()


def test_the_command_makes_a_token_and_warns_who_serves_other_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the command ends as soon as it serves."""
    tokens = set()
    monkeypatch.setattr(remote_server.signal, "signal", lambda *_: None)
    monkeypatch.setattr(remote_server, "threading", SimpleNamespace(Event=lambda: SimpleNamespace(wait=lambda: None)))
    for options, variables in (((), {}), ((), {}), (("--host", "0.0.0.0"), {TOKEN_VARIABLE: "given"})):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert main(["--port", "0", *options]) == 0
        said = capsys.readouterr()
        tokens.add(said.out.splitlines()[1].removeprefix(f"clients need {TOKEN_VARIABLE}="))
        assert ("warning: 0.0.0.0 is not this machine alone" in said.err) == bool(options)
    assert len(tokens) == 3
    assert "given" in tokens
    assert min(map(len, tokens - {"given"})) >= 32


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("0.0.0.0", False), ("::", False), ("farm", False)],
)
def test_hosts_that_are_this_machine_alone(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_files_of_clients_have_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_services, "MOST_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(remote_services, "MOST_FILES", 10)
    with serving() as server:
        device, files = remote_device(server.port), server._services.files._files
        for path in ("/a", "/a", "/b"):
            device.write_file(path, bytes(400_000))
        for path, size in (("/c", 400_000), ("/c", 1 << 24), ("/" + "x" * 5000, 1)):
            with pytest.raises(grpc.RpcError, match="no room for the file"):
                device.write_file(path, bytes(size))
        for number in range(10 - len(files)):
            device.write_file(f"/small{number}", b"x")
        with pytest.raises(grpc.RpcError, match="no room for the file"):
            device.write_file("/one_more", b"x")
        assert len(files) == 10
        assert len(files["/a"]) == 400_000


def test_a_bitstream_from_the_network_brings_no_code(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    name = f'tiny\n__attribute__((constructor)) static void taken() {{ fclose(fopen("{taken}", "w")); }}\n//'
    path = tmp_path / "attack.bit"
    description = {
        "kind": "systolic_array", "layout": layout(), "name": name, "digest": "0" * 64,
        "configuration": config_to_dict(KernelConfig(columns=2, rows=4)),
    }  # fmt: skip
    write_emulation_bitstream(path, "<EDKSYSTEM/>", {"accelerator": description})
    with RemoteBoardServer(VirtualBoard("zynqmp")) as server:
        device = remote_device(server.port)
        device.write_file("/lib/firmware/attack.bit", path.read_bytes())
        with pytest.raises(grpc.RpcError, match=r"attack\.bit, kernel 'accelerator'.*: name is 'tiny"):
            device.write_file("/sys/class/fpga_manager/fpga0/firmware", b"attack.bit")
    assert not taken.exists()


def test_the_command_explains_itself_and_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--family" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["--port", "70000"])
    assert ended.value.code == 2
    assert "'70000' is not a port" in capsys.readouterr().err
    with serving() as server:
        assert main(["--port", str(server.port)]) == 2
    assert capsys.readouterr().err.startswith("error: cannot listen on")


def test_the_server_needs_a_pynq_with_remote_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bfpga.board.virtual.remote_services", None)
    with pytest.raises(DeviceError, match=r"needs PYNQ 3\.1 or newer"):
        RemoteBoardServer(VirtualBoard("zynqmp"))


def test_calls_are_fast_enough_to_work_with() -> None:
    with serving() as server:
        registers = pynq.MMIO(0xFF5E00C0, 4, device=remote_device(server.port))
        started = time.perf_counter()
        for _ in range(100):
            registers.read(0)
        assert time.perf_counter() - started < 2
