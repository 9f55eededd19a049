"""Programs at other places of a kernel's memories compute the same, and what they keep stays theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from activation_arrays import ACTIVATIONS
from cluster_configs import CLUSTER, TILE
from kernel_pairs import SMALL
from row_kernels import ROWS
from skip_arrays import SKIPS
from small_networks import Network, attention_network, compiled
from two_arrays import TWO_ARRAYS

from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import HostNode, Program
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_start import KernelStart
from bfpga.devices.shared_kernel import SharedKernel, SharingDevice
from bfpga.program.kernel_room import Room, apart, room_of
from bfpga.program.limits import check_limits

Samples = dict[str, npt.NDArray[Any]]


class Counting(CSimulation):
    """A C simulation that adds up the bytes of its streams."""

    def __init__(self, config: KernelConfig) -> None:
        super().__init__(config)
        self.weights = self.inputs = 0

    def begin(self, start: KernelStart) -> None:
        self.weights += len(start.weights) * start.weight_repeats
        self.inputs += len(start.packet)
        super().begin(start)


def network(seed: int, function: str = "Relu") -> Network:
    result = Network(3, 6, 6)
    result.generator = np.random.default_rng(seed)
    result.conv(4 + seed, 3, 3, pads=[1, 1, 1, 1])
    result.add(function)
    result.conv(4, 4 + seed, 3)
    return result


def programs(
    folder: Path, *networks: Network, config: KernelConfig = SMALL, options: CompileOptions | None = None
) -> list[Program]:
    return [compiled(one, folder, config, options) for one in networks]


def inputs(program: Program, seed: int, count: int = 3) -> Samples:
    generator = np.random.default_rng(seed)
    return {
        name: generator.uniform(-1, 1, (count, *shape)).astype(np.float32) for name, shape in program.inputs.items()
    }


def equal(found: Any, expected: Any) -> bool:
    return all(np.array_equal(found.outputs[name], value) for name, value in expected.outputs.items())


def in_turn(found: list[Program], kernel: Counting, rounds: int = 2) -> list[int]:
    """Runs of the programs one after the other, as the emulator computes them; weight bytes of each run."""
    devices = SharedKernel(found, kernel, "csim").devices
    moved = []
    for number in range(rounds):
        for device, program in zip(devices, found, strict=True):
            before, given = kernel.weights, inputs(program, number)
            assert equal(device.run(given), Emulator(program).run(given))
            moved.append(kernel.weights - before)
    return moved


@pytest.mark.parametrize("config", [SMALL, SKIPS, ACTIVATIONS, TWO_ARRAYS, CLUSTER, TILE])
def test_every_array_computes_the_same_with_weights_elsewhere(config: KernelConfig, tmp_path: Path) -> None:
    found = programs(tmp_path, network(1), network(2), config=config)
    placed = apart(found)
    assert [room_of(program).words[0] for program in placed].count(0) == 1
    assert not room_of(placed[0]).meets(room_of(placed[1]))
    for program in placed:
        check_limits(program)
    assert in_turn(found, Counting(config)) == [0, 0, 0, 0]


def test_loaded_tables_have_places_apart_too(tmp_path: Path) -> None:
    config = replace(SMALL, function_tables=4)
    found = programs(tmp_path, network(1, "Sigmoid"), network(2, "Tanh"), config=config)
    rooms = [room_of(program).tables for program in apart(found)]
    assert sorted(rooms) == [(0, 1), (1, 2)]
    one_table = replace(SMALL, function_tables=1)
    found = programs(tmp_path, network(1, "Sigmoid"), network(2, "Tanh"), config=one_table)
    assert [room_of(program).tables for program in apart(found)] == [(0, 1), (0, 1)]
    assert min(in_turn(found, Counting(one_table))) > 0


def test_operands_that_become_weights_at_run_time_move_too(tmp_path: Path) -> None:
    """Products of two computed matrices fill words and rows behind those that stay."""
    attention, other = programs(tmp_path, attention_network(), network(1))
    kernel = Counting(SMALL)
    first, second = SharedKernel([attention, other], kernel, "csim").devices
    for number in range(2):
        for device, program in ((first, attention), (second, other)):
            given = inputs(program, number)
            assert equal(device.run(given), Emulator(program).run(given))


def normalized(width: int) -> Network:
    """Layers of products around a normalization with parameters and a Softmax without."""
    result = Network(6, 8)
    result.add("MatMul", result.last, result.weights(8, width))
    gains = [result.constant(result.generator.uniform(0.5, 1.5, width).astype(np.float32)) for _ in range(2)]
    result.add("LayerNormalization", result.last, *gains, axis=-1, epsilon=1e-5)
    result.add("MatMul", result.last, result.weights(width, 8))
    result.add("Softmax", axis=-1)
    return result


def test_parameters_of_rows_move_too(tmp_path: Path) -> None:
    """A layer of rows without parameters names rows that it does not use; those exist at the new place too."""
    config = replace(ROWS, activation_words=2048, weight_words=2048, parameter_rows=512)
    found = programs(tmp_path, normalized(12), normalized(16), config=config)
    for program in apart(found):
        check_limits(program)
    kernel = Counting(config)
    devices = SharedKernel(found, kernel, "csim").devices
    assert sum(isinstance(node, HostNode) for program in found for node in program.nodes) == 0
    before = kernel.weights
    for number in range(2):
        for device, program in zip(devices, found, strict=True):
            given = inputs(program, number)
            assert equal(device.run(given), Emulator(program).run(given))
    assert kernel.weights == before


def test_starts_of_a_program_memory_stay_too(tmp_path: Path) -> None:
    """The second round sends no descriptors: as many bytes as without another program."""
    config = replace(SMALL, program_descriptors=64)
    found = programs(tmp_path, network(1), network(2), config=config)
    kernel = Counting(config)
    in_turn(found, kernel)
    together = kernel.inputs
    alone = 0
    for program in found:
        kernel = Counting(config)
        in_turn([program], kernel)
        alone += kernel.inputs
    assert together == alone


LEARNING = CompileOptions(policy="rolling_max", window=4)


def follow(device: SharingDevice, emulator: Emulator, seed: int, scale: float = 1.0) -> None:
    given = {name: scale * value for name, value in inputs(device.program, seed).items()}
    assert equal(device.run(given), emulator.run(given))


def test_programs_that_learn_begin_anew_after_each_other(tmp_path: Path) -> None:
    found = programs(tmp_path, network(1), network(2), options=LEARNING)
    devices = SharedKernel(found, Counting(SMALL), "csim").devices
    for scale in (0.01, 1.0, 0.1):
        for device, program in zip(devices, found, strict=True):
            follow(device, Emulator(program), 1, scale)
            assert [other.ready for other in devices] == [other is device for other in devices]


def test_runs_from_several_threads_take_turns(tmp_path: Path) -> None:
    found = programs(tmp_path, network(1), network(2))
    devices = SharedKernel(found, Counting(SMALL), "csim").devices
    results: dict[tuple[int, int], Any] = {}

    def runs(index: int) -> None:
        for number in range(10):
            results[index, number] = devices[index].run(inputs(found[index], number))

    threads = [Thread(target=runs, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (index, number), result in results.items():
        assert equal(result, Emulator(found[index]).run(inputs(found[index], number)))
    assert len(results) == 20


@pytest.mark.parametrize("change", [lambda words: words, lambda words: words - 1])
def test_the_last_word_of_a_memory_is_used_and_none_behind_it(tmp_path: Path, change: Callable[[int], int]) -> None:
    found = programs(tmp_path, network(1), network(2))
    words = [room_of(program).words[1] for program in found]
    config = replace(SMALL, weight_words=change(sum(words)))
    placed = apart([replace(program, config=config) for program in found])
    rooms = [room_of(program) for program in placed]
    if config.weight_words == sum(words):
        assert max(room.words[1] for room in rooms) == config.weight_words
        assert not rooms[0].meets(rooms[1])
    else:
        assert [room.words for room in rooms] == [(0, size) for size in words]
        assert rooms[0].meets(rooms[1])


def test_rooms_meet_where_a_memory_has_a_place_of_both() -> None:
    room = Room((0, 4), (0, 2), (0, 1))
    assert not room.meets(Room((4, 6), (2, 3), (1, 2)))
    assert room.meets(Room((3, 6), (2, 3), (1, 2)))
    assert room.meets(Room((4, 6), (1, 3), (1, 2)))
    assert room.meets(Room((4, 6), (2, 3), (0, 1)))
    assert not room.meets(Room())
