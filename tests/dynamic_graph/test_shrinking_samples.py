"""Define by run with a share of measured outputs that changes from iteration to iteration (FP R31, R32)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager_cases import integers, tiny_with

import bfpga
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.dynamic_graph.records import OperationRecord
from bfpga.dynamic_graph.run import EagerRun
from bfpga.engines.positions.sample_schedule import SampleSchedule
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray
from bfpga.training.layers import Dense
from bfpga.training.products import ArrayProducts
from bfpga.training.steps import Momentum, cross_entropy

ROWS = 64
WEIGHTS = np.eye(4)
#: An iteration each with all rows, every second, every fourth and every eighth one.
SHRINKING = SampleSchedule((1, 2, 3), (1, 2, 4, 8))


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    """A small array with a collector and a keep buffer."""
    return load_accelerator(tiny_with(tmp_path_factory.mktemp("accelerator"), "position_bins: 24", "wide_words: 4096"))


def even_rows_are_large() -> FloatArray:
    """Highest bits at 5 in even rows, at 2 in odd ones."""
    values = integers(ROWS, 4, largest=3)
    values[:, 0] = 4
    values[::2, 0] = 32
    return values


def bits(record: OperationRecord) -> tuple[object, ...]:
    return record.exponent, record.share, record.saturated, record.status, record.cycles, record.compiled


def iterations(run: EagerRun, count: int = 4) -> list[Any]:
    """The same operation in iteration after iteration."""
    results = []
    for _ in range(count):
        results.append(run.linear(even_rows_are_large(), WEIGHTS))
        run.finish_iteration()
    return results


def test_each_iteration_measures_the_rows_of_its_share(collecting: Accelerator) -> None:
    """FP R31: a sample without the large rows gives the exponent of the small ones, and large rows saturate.

    Each new sample begins a row later (FP R30): of rows 1, 3, 5, ... and 3, 11, 19, ... none is large, of all rows
    and of 2, 6, 10, ... some are.
    """
    with bfpga.eager(collecting, rule="max", flow="two_pass_sampled", sample=SHRINKING) as run:
        iterations(run)
        assert [record.share for record in run.trace] == [1, 0.5, 0.25, 0.125]
        # Of eight bits the position of the highest one is 6.
        assert [record.exponent for record in run.trace] == [5 - 6, 2 - 6, 5 - 6, 2 - 6]
        # 32 / 2**-4 is 512, above 127, in every second row.
        assert [record.saturated for record in run.trace] == [0, ROWS // 2, 0, ROWS // 2]
        clocks = [record.cycles for record in run.trace]
        assert clocks == sorted(clocks, reverse=True)
        assert len(set(clocks)) == len(clocks)


@pytest.mark.parametrize("device", ["csim", "virtual"])
@pytest.mark.parametrize("flow", ["two_pass_sampled", "keep_sampled"])
def test_kernels_follow_the_schedule_as_the_emulator(device: str, flow: Any, collecting: Accelerator) -> None:
    """FP R31, R48: one kernel gets descriptors of another share in every iteration."""
    options: dict[str, Any] = {"rule": "rate", "rate": 4, "flow": flow, "sample": SHRINKING}
    with bfpga.eager(collecting, **options) as expected, bfpga.eager(collecting, device, **options) as found:
        for ours, theirs in zip(iterations(found, 5), iterations(expected, 5), strict=True):
            assert ours.exponent == theirs.exponent
            assert np.array_equal(ours.mantissa, theirs.mantissa)
        assert [bits(record) for record in found.trace] == [bits(record) for record in expected.trace]
        assert [record.share for record in found.trace] == [1, 0.5, 0.25, 0.125, 0.125]
        assert len({record.exponent for record in found.trace}) > 1
        assert not found.trace[-1].compiled  # the share is that of the iteration before


def test_samples_shrink_with_the_accuracy_of_training(collecting: Accelerator) -> None:
    """FP R32, R4: forward and backward products of both sessions, from the iteration on that reached the accuracy."""
    generator = np.random.default_rng(5)
    labels = np.arange(96) % 3
    x = generator.normal(0, 2, (3, 6))[labels] + generator.normal(0, 0.3, (96, 6))
    layer = Dense("scores", np.zeros((6, 3)), relu=False)
    optimizer = Momentum(layer.parameters, 0.5)
    schedule = SampleSchedule((0.9,), (1, 8), "accuracy")
    reached, shares = [], []
    with bfpga.eager(collecting, flow="two_pass_sampled", sample=schedule) as run:
        products = ArrayProducts(run, run)
        for _ in range(6):
            scores = np.asarray(layer.forward(products, x))
            shares.append(run.trace[-1].share)
            layer.backward(products, cross_entropy(scores, labels)[1])
            optimizer.update()
            reached.append(float((scores.argmax(axis=1) == labels).mean()))
            products.finish_iteration(reached[-1])
    assert reached[0] < 0.9 <= reached[-1]
    assert shares == [1.0] + [0.125 if accuracy >= 0.9 else 1.0 for accuracy in reached[:-1]]


def test_samples_shrink_where_results_spread_little(collecting: Accelerator) -> None:
    """FP R32: the widest histogram of an iteration decides the next one's share."""
    even, wide = np.full((ROWS, 4), 4.0), np.full((ROWS, 4), 4.0)
    wide[0, 0] = 64  # four bits above the others
    schedule = SampleSchedule((3,), (4, 1), "spread")
    shares = []
    with bfpga.eager(collecting, rule="max", flow="two_pass_sampled", sample=schedule) as run:
        for iteration in ([wide, even], [even, even], [even]):
            for values in iteration:
                run.linear(values, WEIGHTS)
                shares.append(run.trace[-1].share)
            run.finish_iteration()
    assert shares == [1, 1, 1, 1, 0.25]


@pytest.mark.parametrize(("flow", "rule"), [("two_pass", "rate"), ("keep", "rate"), ("auto", "max"), (None, "max")])
def test_a_schedule_that_changes_nothing_is_refused(flow: Any, rule: Any, collecting: Accelerator) -> None:
    """FP R31: these measure everything, so nothing would shrink."""
    with pytest.raises(ConfigurationError, match="measures everything, so a schedule of samples changes nothing"):
        bfpga.eager(collecting, flow=flow, rule=rule, sample=SHRINKING)


def test_the_page_shows_what_shrinks() -> None:
    """docs/eager.md: the program of its section, and the shares that it says."""
    page = (Path(__file__).parents[2] / "docs" / "eager.md").read_text().partition("### Samples that shrink")[2]
    [program] = re.findall(r"^```python\n(.*?)^```", page.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(program, names)
    trace = names["run"].trace
    assert f"# {[record.share for record in trace]}" in program
    assert len({record.cycles for record in trace[1:]}) > 2
