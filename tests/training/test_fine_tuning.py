"""Modules of PyTorch that compute with an array's numbers: the emulator's bits; needs PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bfpga
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.frameworks import export_network
from bfpga.contract.program import Program
from bfpga.errors import ConfigurationError, ModelError

torch = pytest.importorskip("torch", reason="fine-tuning needs PyTorch: pip install 'bfpga[torch]'")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from bfpga.training.fake_quantizers import Product, Quantizer  # noqa: E402
from bfpga.training.fine_tuning import Prepared, prepare, unprepare  # noqa: E402

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).normal(size=(32, 3, 8, 8)).astype(np.float32)


class Network(nn.Module):
    """What the array computes of images: products, a function, padding, a sum, a maximum, a concatenation, a mean."""

    def __init__(self, function: Callable[[], nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.first, self.scale, self.function = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), function()
        self.depthwise, self.pointwise = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 8, 1)
        self.pad, self.pool, self.scores = nn.ZeroPad2d((0, 2, 1, 1)), nn.MaxPool2d(2), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.function(self.scale(self.first(self.pad(x))))
        x = functional.relu(x + self.pointwise(self.function(self.depthwise(x))))
        x = torch.cat([self.pointwise(x), self.depthwise(x)], 1)
        return self.scores(torch.flatten(functional.adaptive_avg_pool2d(self.pool(x), 1), 1)).softmax(1)


def network(function: Callable[[], nn.Module] = nn.ReLU) -> Network:
    torch.manual_seed(1)
    made = Network(function).eval()
    made.scale.running_mean.normal_()
    made.scale.running_var.uniform_(0.5, 2)
    return made


def in_torch(module: nn.Module, kind: Any) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(module.to(kind).eval()(torch.tensor(X).to(kind)))


def scores(module: nn.Module, accelerator: str) -> tuple[np.ndarray, Any]:
    """What the emulator gives for the values that the last layer rounds, and their exponents."""
    program = bfpga.compile(module, accelerator, example_inputs=X)
    result = bfpga.run(program, X, trace=True)
    return list(result.tensors.values())[-1], next(iter(result.outputs.values()))


CASES = [
    ("pynq_z2_dense", CompileOptions(), nn.ReLU),
    ("pynq_z2_dense", CompileOptions(), nn.ReLU6),
    ("pynq_z2_dense", CompileOptions(policy="max"), nn.ReLU),
    ("pynq_z2_bfp16", CompileOptions(), nn.ReLU),
    ("pynq_z2_shift", CompileOptions(formats="two_hot"), nn.ReLU),
    ("pynq_z2_shift", CompileOptions(formats="power_of_two", policy="max"), nn.ReLU),
    ("pynq_z2_flows", CompileOptions(), nn.Sigmoid),
    ("tiny", CompileOptions(), nn.SiLU),
    ("pynq_z2_quad", CompileOptions(), nn.ReLU),
    ("pynq_z2_quad", CompileOptions(policy="max"), nn.ReLU6),
]


@pytest.mark.parametrize(("accelerator", "options", "function"), CASES)
def test_what_trains_is_what_runs(accelerator: str, options: CompileOptions, function: Any) -> None:
    """In float64 the results are the emulator's; in float32 they are within one step of the last layer's mantissas."""
    runs_alike(accelerator, options, function)


@pytest.mark.parametrize("policy", ["static", "max"])
def test_sums_train_without_the_rounding_that_a_product_spares_them(policy: str) -> None:
    """In kernels whose products add tensors, where exponents are known before the sums."""
    known = load_accelerator("pynq_z2_dense")
    kernels = [replace(known, config=replace(known.config, residual_adds=adds)) for adds in (False, True)]
    programs = [runs_alike(item, CompileOptions(policy=policy), nn.ReLU) for item in kernels]
    added = [[node for node in program.nodes if getattr(node, "adds_second", False)] for program in programs]
    assert list(map(len, added)) == [0, int(policy == "static")]


def runs_alike(accelerator: str | Accelerator, options: CompileOptions, function: Any) -> Program:
    """Compares a prepared network with the emulator; its program."""
    prepared = prepare(network(function), accelerator, torch.tensor(X[:16]), options)
    body = prepared.body
    last = [node for node in body.graph.nodes if node.op == "call_module"][-1]
    program = bfpga.compile(prepared, accelerator, example_inputs=X)
    block = list(bfpga.run(program, X, trace=True).tensors.values())[-1]
    seen: list[Any] = []
    body.get_submodule(last.target).register_forward_hook(lambda _, __, y: seen.append(y.numpy()))
    in_torch(prepared, torch.float64)
    in_torch(prepared, torch.float32)
    step = 2.0 ** np.asarray(block.exponent, np.float64).reshape(-1, 1)
    expected = np.asarray(block.mantissa, np.float64).reshape(len(X), -1) * step
    assert len(np.unique(expected)) > 10
    assert np.array_equal(seen[0], expected)
    assert (np.abs(seen[1] - expected) <= step).all()
    return program


def pooled(pool: nn.Module, *behind: nn.Module) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), pool, *behind)


class Mean(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean((2, 3))


@pytest.mark.parametrize("accelerator", ["pynq_z2_dense", "pynq_z2_quad", "pynq_z2_shift"])
@pytest.mark.parametrize(
    "module",
    [
        lambda: pooled(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(8, 5)),
        lambda: pooled(nn.AvgPool2d((4, 8)), nn.Conv2d(8, 5, 1)),
        lambda: pooled(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
        lambda: pooled(Mean(), nn.Linear(8, 5)),
    ],
)
def test_large_averages_round_between_their_steps_as_the_array_does(accelerator: str, module: Any) -> None:
    prepared = prepare(module(), accelerator, torch.tensor(X))
    found = next(iter(bfpga.run(bfpga.compile(prepared, accelerator, example_inputs=X), X).outputs.values()))
    assert len(np.unique(found)) > 5
    assert np.array_equal(found, in_torch(prepared, torch.float64))


def test_a_rounded_slope_moves_a_result_by_one_step_at_most() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.125))
    torch.manual_seed(0)
    prepared = prepare(layers, "tiny", torch.tensor(X))
    step = 2.0 ** int(prepared.quantizers()[-1].exponent)
    found = next(iter(bfpga.run(bfpga.compile(prepared, "tiny", example_inputs=X), X).outputs.values()))
    assert np.abs(found - in_torch(prepared, torch.float64)).max() <= step


def test_gradients_pass_through_rounding_and_stop_where_mantissas_saturate() -> None:
    quantizer = Quantizer(bfpga.compile(nn.Linear(3, 2), "tiny", example_inputs=X[:, :, 0, 0]).config.format, False)
    quantizer(torch.tensor([[1.0, 0.25]]))
    assert float(quantizer.exponent) == -6
    x = torch.tensor([[0.3, 100.0]], requires_grad=True)
    y = quantizer(x)
    y.sum().backward()
    assert y[0, 0] == round(0.3 * 64) / 64
    assert y[0, 1] == 127 / 64
    assert x.grad.tolist() == [[1.0, 0.0]]


def test_training_changes_the_weights_and_lowers_the_loss() -> None:
    prepared = prepare(network(), "pynq_z2_shift", torch.tensor(X), CompileOptions(formats="power_of_two"))
    wanted = torch.tensor(X[:, 0].mean((1, 2)) > 0).long()
    optimizer = torch.optim.Adam(prepared.train().parameters(), 0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = functional.nll_loss(prepared(torch.tensor(X)).log(), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1, losses


def test_the_plain_module_has_the_weights_of_the_array_and_no_quantizer(tmp_path: Path) -> None:
    prepared = prepare(network(), "pynq_z2_shift", torch.tensor(X), CompileOptions(formats="two_hot"))
    plain = unprepare(prepared)
    parts = [part for part in prepared.modules() if isinstance(part, Product)]
    exported = onnx.load(export_network(plain, tmp_path / "plain.onnx", X))
    kinds = {(node.domain, node.op_type) for node in exported.graph.node}
    assert {domain for domain, _ in kinds} == {""}
    assert ("", "QuantizeLinear") not in kinds
    assert not [part for part in plain.modules() if isinstance(part, (Product, Quantizer))]
    weights = [layer.weight for layer in plain.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    assert len(weights) == len(parts)
    assert not np.array_equal(weights[0].detach(), parts[0].layer.weight.detach())
    again = prepare(plain, "pynq_z2_shift", torch.tensor(X), CompileOptions(formats="two_hot"))
    for kept, part in zip(weights, (part for part in again.modules() if isinstance(part, Product)), strict=True):
        assert torch.equal(part.plain().weight, kept)  # rounding again changes nothing


def test_exponents_follow_the_samples_that_calibrate() -> None:
    prepared = prepare(network(), "pynq_z2_dense", torch.tensor(X))
    before = int(prepared.quantizers()[0].exponent)
    prepared.calibrate(torch.tensor(16 * X))
    assert int(prepared.quantizers()[0].exponent) == before + 4


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "options", "error", "message"),
    [
        (Scaled(), None, ModelError, "mul: .* cannot be trained"),
        (Branching(), None, ModelError, "Branching cannot be traced by torch.fx"),
        (nn.BatchNorm2d(3), None, ModelError, "batch normalization without a layer before it"),
        (nn.Conv2d(4, 2, 1), None, ModelError, "does not take the samples"),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), None, ModelError, "the array pads with zeros"),
        (nn.AdaptiveAvgPool2d(2), None, ModelError, "the output size 1 only"),
        (network(), CompileOptions(policy="stats"), ConfigurationError, "policy stats cannot be trained with"),
        (network(), CompileOptions(formats="two_hot"), ConfigurationError, "not for this array; it takes linear"),
    ],
)
def test_what_cannot_be_trained_is_refused(module: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        prepare(module, "pynq_z2_dense", torch.tensor(X), options)


def test_a_module_compiles_in_one_call_and_keeps_its_modes() -> None:
    """Batch normalization and dropout are exported as they run, whatever mode the module is in."""
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 5)).train()
    layers[1].eval()
    program = bfpga.compile(layers, "pynq_z2_bfp16", X)
    assert [part.training for part in layers] == [True, False, True, True, True]
    expected = in_torch(layers, torch.float32)
    found = next(iter(bfpga.run(program, X).outputs.values()))
    assert np.abs(found - expected).max() < 1e-3


def test_exporters_that_fail_are_one_error() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("only for training")

    with pytest.raises(ModelError, match=r"Odd cannot be exported .* torch.onnx.export\(dynamo.* only for training"):
        bfpga.compile(Odd(), "tiny", X)
    with pytest.raises(ModelError, match="give calibration samples, or example_inputs"):
        bfpga.compile(nn.Linear(3, 2), "tiny")


def test_the_tutorial_trains_fine_tunes_compiles_and_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it exports is tests/data/fine_tuning/tutorial.onnx, with the scores of the module."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "tutorials" / "fine-tune.md").read_text()
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0], names)
    tuned = names["tuned"]
    assert isinstance(tuned, Prepared)
    assert int(capsys.readouterr().out.split()[0]) > 80
    with torch.no_grad():
        expected = tuned.double().eval()(names["x"][400:].double())
    assert np.array_equal(names["scores"], expected.numpy())
