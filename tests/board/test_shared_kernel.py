"""Several programs on one board: a change between those that fit together moves no weights, and none is ever wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pynq")

from board_fixtures import compiled_program, expected, program_file
from board_targets import check_clean, open_case, same

from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.virtual.faults import DmaError
from bfpga.data import load_samples
from bfpga.devices.shared_kernel import SharingDevice
from bfpga.errors import DeviceError, ProgramError

pytestmark = pytest.mark.board
ROOT = Path(__file__).parents[2]


def weight_bytes(overlay: BoardOverlay) -> int:
    """Bytes that have gone to the kernel's weight stream since the overlay was loaded."""
    fabric: Any = overlay.target.board._fabric  # type: ignore[attr-defined]
    (stream,) = [stream for stream in fabric.streams if "weight_dma/M_AXIS_MM2S" in stream.name]
    return int(stream.accepted)


def moved(overlay: BoardOverlay, device: SharingDevice, case: str, samples: int = 4) -> int:
    """Weights in bytes that a run takes to the kernel; its outputs are the emulator's."""
    before, reference = weight_bytes(overlay), expected(case, samples)
    assert same(device.run(reference.inputs), reference)
    return weight_bytes(overlay) - before


def setup_bytes(case: str) -> int:
    return sum(len(operation.weights) for operation in compiled_program(case).setup.operations)


def test_a_change_between_programs_that_fit_together_moves_no_weights() -> None:
    """One after the other with ``open`` each brings its weights again; together each has brought them once."""
    cases = ["lenet_pynq_z2", "residual_pynq_z2"]
    programs = [compiled_program(case) for case in cases]
    with open_case(cases[0], "virtual") as overlay:
        alone = []
        for case in (*cases, *cases):
            before = weight_bytes(overlay)
            device = overlay.open(compiled_program(case))
            assert same(device.run(expected(case, 4).inputs), expected(case, 4))
            alone.append(weight_bytes(overlay) - before)
        assert alone == 2 * [setup_bytes(case) for case in cases]
        before = weight_bytes(overlay)
        devices = overlay.open_together(*programs)
        assert weight_bytes(overlay) - before == sum(map(setup_bytes, cases))
        assert all(device.ready for device in devices)
        for _ in range(2):
            assert [moved(overlay, device, case) for device, case in zip(devices, cases, strict=True)] == [0, 0]
        check_clean(overlay)


def test_the_page_says_what_happens(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code runs, what it prints is what it says, and its table has the bytes of both programs."""
    pytest.importorskip("onnx")
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "how-to" / "several-networks.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    samples = load_samples("examples/models/mnist_test.npz")
    names: dict[str, Any] = {"images": samples.x[:2, None], "sounds": np.zeros((2, 1, 1, 49, 10), np.float32)}
    exec(first, names)
    answers = capsys.readouterr().out.splitlines()
    assert answers[0] == "True True"
    assert [line.split()[0] for line in answers[1:]] == [str(label) for label in samples.y[:2]]
    exec(second, names)
    assert f"```text\n{capsys.readouterr().out}```" in page
    sizes = [sum(len(item.weights) for item in names[name].setup.operations) for name in ("digits", "keywords")]
    assert page.count(f" | {sizes[0]:,} | {sizes[1]:,} |") == 2


def test_what_another_program_has_overwritten_is_brought_again() -> None:
    """LeNet loads weights with every sample on this array, through all of its memory: the others do not fit beside."""
    cases = ["digits_tiny_learning", "lenet_tiny"]
    with open_case(cases[0], "virtual") as overlay:
        digits, lenet = overlay.open_together(*map(program_file, cases))
        assert lenet.ready
        assert not digits.ready
        assert moved(overlay, digits, cases[0]) == setup_bytes(cases[0])
        assert not lenet.ready
        samples = 4 * sum(len(operation.weights) for step in lenet.program.steps for operation in step.operations)  # type: ignore[union-attr]
        assert moved(overlay, lenet, cases[1]) == setup_bytes(cases[1]) + samples
        assert moved(overlay, lenet, cases[1]) == samples
        assert moved(overlay, digits, cases[0]) == setup_bytes(cases[0])
        digits.reset()
        assert moved(overlay, digits, cases[0]) == 0


def test_a_failure_of_one_program_sets_up_all_again() -> None:
    cases = ["lenet_pynq_z2", "residual_pynq_z2"]
    with open_case(cases[0], "virtual") as overlay:
        devices = overlay.open_together(*map(compiled_program, cases))
        overlay.target.board.faults.inject(DmaError(dma="tensor_dma", channel="mm2s", kind="slave"))  # type: ignore[attr-defined]
        with pytest.raises(BoardError, match="slave error"):
            devices[0].run(expected(cases[0], 1).inputs)
        assert not any(device.ready for device in devices)
        assert [moved(overlay, device, case) for device, case in zip(devices, cases, strict=True)] == [
            setup_bytes(case) for case in cases
        ]
        assert moved(overlay, devices[0], cases[0]) == 0


def test_opening_something_else_closes_all() -> None:
    cases = ["lenet_pynq_z2", "residual_pynq_z2"]
    with open_case(cases[0], "virtual") as overlay:
        devices = overlay.open_together(*map(compiled_program, cases))
        overlay.open(compiled_program(cases[0]))
        for device, case in zip(devices, cases, strict=True):
            with pytest.raises(DeviceError, match="this kernel is closed"):
                device.run(expected(case, 1).inputs)


def test_programs_of_another_accelerator_and_no_programs_are_refused() -> None:
    with open_case("lenet_pynq_z2", "virtual") as overlay:
        with pytest.raises(ProgramError, match="those that share a kernel are compiled for the same"):
            overlay.open_together(compiled_program("lenet_pynq_z2"), compiled_program("lenet_tiny"))
        with pytest.raises(ProgramError, match="overlay pynq_z2_dense"):
            overlay.open_together(compiled_program("lenet_tiny"))
        with pytest.raises(ProgramError, match="no program is given"):
            overlay.open_together()
