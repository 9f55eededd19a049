"""Long work on a terminal shows how far it is and how long it will take."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Network

from bfpga.cli import main

pty = pytest.importorskip("pty", reason="pseudo terminals are needed")


def vgg_like() -> Network:
    """Two 3x3 convolutions with 16 channels on images of 224x224 pixels, each with its maximum."""
    network = Network(3, 224, 224)
    for inputs in (3, 16):
        network.conv(16, inputs, 3, pads=[1, 1, 1, 1])
        network.add("Relu")
        network.add("MaxPool", kernel_shape=[4, 4], strides=[4, 4])
    network.add("GlobalAveragePool")
    network.add("Flatten")
    return network


class Terminal:
    """A pseudo terminal whose other end keeps what was written."""

    def __init__(self) -> None:
        self.reader, self.writer = pty.openpty()
        self.parts: list[bytes] = []
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self.reader, 4096)
            except OSError:  # closed at the other end
                return
            if not part:
                return
            self.parts.append(part)

    def text(self) -> str:
        """All that was written, once the writer is closed."""
        self.thread.join()
        os.close(self.reader)
        return b"".join(self.parts).decode()


def test_an_evaluation_shows_a_bar_and_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 15: a network like VGG with 16 channels on 224x224 pixels."""
    network = vgg_like()
    model, data = tmp_path / "vgg.onnx", tmp_path / "data.npz"
    onnx.save(network.model(), model)
    np.savez(data, x=network.samples(4)["x"], y=np.zeros(4, np.int64))
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(terminal.writer, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        status = main(["evaluate", str(model), "-a", "pynq_z2_dense", "-d", str(data), "--batch", "1"])
        monkeypatch.undo()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.text())
    assert status == 0, capsys.readouterr()
    shown = [int(done) for done in re.findall(r"evaluating .*?(\d+)/12", text)]
    assert shown == sorted(shown)
    assert shown[-1] == 12
    assert re.search(r"━.* \d+/12 0:00:\d\d", text), text
