"""PyTorch modules whose products run on a session's device; with a stand-in, and with PyTorch where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from eager_cases import IMAGES, KERNELS, B, W, convolved
from torch_stand_in import Conv2d, Linear, Module, Tensor, stand_in

import bfpga
from bfpga.dynamic_graph.run import EagerRun
from bfpga.errors import DataError, ToolError


class Network(Module):
    """A layer that is called as often as its input says, and one that is called once."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = Linear(np.roll(np.eye(11), 1, axis=0) * 0.6)
        self.scores = Linear(W, B[:1].repeat(20))

    def forward(self, x: Tensor) -> Tensor:
        while x.values.max() > 1:
            x = self.hidden(x)
        return self.scores(x)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[EagerRun]:
    monkeypatch.setitem(sys.modules, "torch", stand_in())
    with bfpga.eager("tiny", "emulator") as opened:
        yield opened


def test_linear_layers_of_a_module_run_on_the_device(run: EagerRun) -> None:
    """FP 1, R3: the module's own Python decides how often a layer runs; every product is one operation."""
    network, x = Network().eval(), Tensor(np.linspace(0, 4, 44).reshape(4, 11))
    expected = network(x).values
    with run.attach(network) as left:
        found = network(x).values
    assert left == {}
    assert np.abs(found - expected).max() < np.abs(expected).max() / 20
    assert {record.name for record in run.trace} == {"linear"}
    assert run.report().on_device == 4  # 4, 2.4, 1.44, 0.864
    assert found.dtype == x.values.dtype


def test_module_is_as_before_behind_the_block(run: EagerRun) -> None:
    """Errors within the block included."""
    network, x = Network().eval(), Tensor(np.ones((2, 11)))
    with pytest.raises(DataError, match="do not go together"), run.attach(network):
        network(Tensor(np.ones((2, 3))))
    count = len(run.trace)
    network(x)
    assert len(run.trace) == count


@pytest.mark.parametrize("padding", [(1, 0), "valid"])
def test_convolutions_run_on_the_device(run: EagerRun, padding: object) -> None:
    """FP R3: padding by numbers and by name, images with and without a batch."""
    layer = Conv2d(KERNELS, padding).eval()
    assert isinstance(layer, Conv2d)
    rows = 1 if padding == (1, 0) else 0
    expected = convolved(np.pad(IMAGES, ((0, 0), (0, 0), (rows, rows), (0, 0))), KERNELS)
    with run.attach(layer):
        batch, one = layer(Tensor(IMAGES)).values, layer(Tensor(IMAGES[0])).values
    assert np.abs(batch - expected).max() < np.abs(expected).max() / 100
    assert np.abs(one - expected[0]).max() < np.abs(expected).max() / 100


def test_layers_that_do_not_fit_are_left_to_pytorch_with_the_reason(run: EagerRun) -> None:
    network = Network().eval()
    network.circular = Conv2d(KERNELS, padding_mode="circular")  # type: ignore[attr-defined]
    network.uneven = Conv2d(KERNELS, "same")  # type: ignore[attr-defined]
    network.eval()
    with run.attach(network) as left:
        assert left == {
            "circular": "it pads with circular, not with zeros",
            "uneven": "it pads one side more than the other",
        }


def test_module_that_trains_is_refused(run: EagerRun) -> None:
    """Results carry no gradient: nothing must look as if it learned."""
    with pytest.raises(DataError, match="training mode"), run.attach(Network()):
        pass


def test_what_is_no_module_is_refused(run: EagerRun) -> None:
    with pytest.raises(DataError, match=r"a list is no torch\.nn\.Module"), run.attach([]):
        pass


def test_machine_without_pytorch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with bfpga.eager("tiny") as run, pytest.raises(ToolError, match="pip install torch"), run.attach(None):
        pass


def test_pytorch_itself() -> None:
    """The same with the real thing: a small network of both kinds of layers."""
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(
        torch.nn.Conv2d(4, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6 * 9 * 8, 5)
    ).eval()
    x = torch.from_numpy(IMAGES.astype(np.float32) / 64)
    with torch.no_grad(), bfpga.eager("pynq_z2_dense") as run:
        expected = network(x)
        with run.attach(network):
            found = network(x)
        assert run.report().on_device == 2
    assert float((found - expected).abs().max()) < 0.05 * float(expected.abs().max()) + 0.02
