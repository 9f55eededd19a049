"""Many samples in a start, one start packed while another runs, and a kernel that is loaded again after an error."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from effort import each_once
from kernel_pairs import SMALL
from small_networks import Network, attention_network, compiled

from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import HostStep, LaunchStep, Program
from bfpga.devices import streaming_device
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_start import KernelResult, KernelStart
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import DeviceError


class Recorder:
    """A kernel of depth 2 on a C simulation; it tells totals only, as a board does, and may fail once."""

    depth = 2

    def __init__(self, program: Program) -> None:
        self.kernel = CSimulation(program.config)
        self.seconds = {"transfer": 0.0}
        self.starts: list[KernelStart] = []
        self.events: list[str] = []
        self.pending: deque[KernelStart] = deque()
        self.fail_at: int | None = None

    def begin(self, start: KernelStart) -> None:
        self.events.append("begin")
        self.starts.append(start)
        self.pending.append(start)
        assert len(self.pending) <= self.depth

    def finish(self) -> KernelResult:
        self.events.append("finish")
        if self.fail_at is not None and len(self.starts) >= self.fail_at:
            self.fail_at = None
            self.pending.clear()
            self.kernel = CSimulation(self.kernel.config)
            raise DeviceError("the board was reset")
        self.kernel.begin(self.pending.popleft())
        self.seconds["transfer"] += 1.0
        result = self.kernel.finish()
        return KernelResult(result.output, result.cycles, None, result.overflow, result.underflow, result.status)

    def cancel(self) -> None:
        self.pending.clear()
        self.kernel = CSimulation(self.kernel.config)

    def close(self) -> None:
        self.kernel.close()


def network() -> Network:
    result = Network(3, 6, 6)
    result.conv(5, 3, 3, pads=[1, 1, 1, 1])
    result.add("Relu")
    result.conv(4, 5, 3)
    result.add("Softmax", axis=1)
    return result


SAMPLES = np.random.default_rng(5).normal(size=(11, 3, 6, 6)).astype(np.float32)


@pytest.fixture(params=["static", "max", "stats", "rolling_max", "feedback", "static_history"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return compiled(network(), tmp_path, config=SMALL, options=CompileOptions(policy=request.param))


def test_grouped_samples_give_what_the_emulator_gives(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies that learn too: samples keep their order, the first one measures alone."""
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 3)
    kernel, emulator = Recorder(program), Emulator(program)
    device = StreamingDevice(program, kernel, "recorded")
    assert sum(isinstance(step, LaunchStep) for step in program.steps) == 1
    for samples in (SAMPLES, SAMPLES[::-1]):
        expected, got = emulator.run({"x": samples}), device.run({"x": samples})
        for name in program.outputs:
            np.testing.assert_array_equal(got.outputs[name], expected.outputs[name])
        assert got.cycles == expected.cycles
        assert [layer.cycles for layer in got.layers] == [layer.cycles for layer in expected.layers]
        assert got.seconds["transfer"] == pytest.approx(4.0, abs=1.0)


def test_a_start_is_packed_while_another_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 4)
    program = compiled(network(), tmp_path, config=SMALL)
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    kernel.events.clear()
    device.run({"x": SAMPLES})
    assert kernel.events == ["begin", "begin", "finish", "begin", "finish", "finish"]
    assert [start.weight_repeats for start in kernel.starts[-3:]] == [4, 4, 3]
    assert kernel.starts[-1].weights is kernel.starts[-2].weights, "a board keeps streamed weights by this identity"


def test_a_kernel_that_stopped_is_loaded_again(program: Program) -> None:
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    kernel.fail_at = len(kernel.starts) + 1
    with pytest.raises(DeviceError, match="the board was reset"):
        device.run({"x": SAMPLES})
    expected, got = Emulator(program).run({"x": SAMPLES}), device.run({"x": SAMPLES})
    for name in program.outputs:
        np.testing.assert_array_equal(got.outputs[name], expected.outputs[name])


def test_a_run_that_is_interrupted_leaves_nothing_for_the_next_one(tmp_path: Path) -> None:
    """A key in a notebook stops a run between two calls; a result left behind would be taken for another one."""
    program = compiled(network(), tmp_path, config=SMALL)
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    with pytest.raises(KeyboardInterrupt), patch.object(kernel, "finish", side_effect=KeyboardInterrupt):
        device.run({"x": SAMPLES})
    expected = Emulator(program).run({"x": SAMPLES[::-1]})
    got = device.run({"x": SAMPLES[::-1]})
    np.testing.assert_array_equal(next(iter(got.outputs.values())), next(iter(expected.outputs.values())))


def two_launches() -> Network:
    """A softmax in the middle, which the host computes, and one at the end."""
    result = network()
    result.conv(3, 4, 1)
    result.add("Relu")
    result.add("LogSoftmax", axis=1)
    return result


def scaled_network() -> Network:
    """A block of excitation: each sample brings the weights of a layer; the host computes what it does not know."""
    result = Network(3, 6, 6)
    block = result.conv(4, 3, 3, pads=[1, 1, 1, 1])
    result.add("GlobalAveragePool")
    result.conv(4, 4, 1)
    result.add("Mul", block, result.add("Sigmoid"))
    result.conv(3, 4, 3)
    result.add("Softmax", axis=1)
    return result


def networks() -> dict[str, Network]:
    return {"two launches": two_launches(), "factors": scaled_network(), "products": attention_network()}


@pytest.mark.parametrize(
    ("policy", "kind"), each_once(["static", "max", "stats", "rolling_max", "feedback"], list(networks()))
)
def test_programs_of_several_steps_give_what_the_emulator_gives(
    kind: str, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step for groups of samples: each policy sees the samples of its layer in their order."""
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 3)
    net = networks()[kind]
    program = compiled(net, tmp_path, config=SMALL, options=CompileOptions(policy=policy))
    assert len([step for step in program.steps if not isinstance(step, HostStep)]) > 1
    emulator, device = Emulator(program), StreamingDevice(program, Recorder(program), "recorded")
    x = net.samples(11)["x"]
    for samples in (x, x[::-1], x[:1]):
        expected, got = emulator.run({"x": samples}), device.run({"x": samples})
        for name in program.outputs:
            np.testing.assert_array_equal(got.outputs[name], expected.outputs[name])
        assert got.cycles == expected.cycles
        assert [layer.cycles for layer in got.layers] == [layer.cycles for layer in expected.layers]


def test_the_host_computes_a_group_while_the_kernel_computes_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 4)
    program = compiled(two_launches(), tmp_path, config=SMALL)
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    for index, function in dict(device._host).items():
        device._host[index] = lambda values, of=function, name=program.nodes[index].operators[0]: (
            kernel.events.append(f"{name} of {max(map(len, values.values()))}") or of(values)
        )
    kernel.events.clear()
    device.run({"x": SAMPLES})
    assert kernel.events == [
        "begin", "begin", "finish", "Softmax of 4", "begin", "finish", "Softmax of 4", "finish", "Softmax of 3",
        "begin", "begin", "finish", "LogSoftmax of 4", "begin", "finish", "LogSoftmax of 4", "finish",
        "LogSoftmax of 3",
    ]  # fmt: skip


def test_programs_of_several_launches_send_the_same_weights_by_identity(tmp_path: Path) -> None:
    """A softmax in the middle: two launches; a board finds streamed weights again."""
    net = network()
    net.conv(3, 4, 1)
    small = replace(SMALL, weight_words=16, parameter_rows=8)
    program = compiled(net, tmp_path, config=small)
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    first = len(kernel.starts)
    for _ in range(2):
        device.run({"x": SAMPLES[:3]})
    starts = kernel.starts[first:]
    assert len(starts) == 4
    assert any(len(start.weights) for start in starts)
    assert all(one.weights is two.weights for one, two in zip(starts[:2], starts[2:], strict=True))


@pytest.mark.parametrize(("samples", "repeats"), [(1, [1]), (2, [1, 1]), (9, [3, 3, 3]), (11, [3, 3, 3, 1, 1])])
def test_weights_that_come_with_every_sample_are_sent_an_odd_number_of_times(
    samples: int, repeats: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no damage to all of them cancels in the checksum."""
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 4)
    program = compiled(network(), tmp_path, config=replace(SMALL, weight_words=16, parameter_rows=8))
    kernel = Recorder(program)
    device = StreamingDevice(program, kernel, "recorded")
    first = len(kernel.starts)
    got = device.run({"x": SAMPLES[:samples]})
    assert [start.weight_repeats for start in kernel.starts[first:] if len(start.weights)] == repeats
    expected = Emulator(program).run({"x": SAMPLES[:samples]})
    for name in program.outputs:
        np.testing.assert_array_equal(got.outputs[name], expected.outputs[name])
