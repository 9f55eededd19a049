"""Which ready accelerator is best for a network: all of them compiled, those that lose too much with a finer recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bfpga.accelerator.boards import Board
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, Program
from bfpga.data import InputSamples
from bfpga.errors import BfpgaError, ConfigurationError
from bfpga.estimate.advice import TIE, Advice, advice
from bfpga.estimate.sample import estimate_sample
from bfpga.explore.figures import Figures, compile_for_figures, sample_figures
from bfpga.explore.limits import excess
from bfpga.explore.task import zero_weights
from bfpga.precision.judge import Judge
from bfpga.scale.work import IN_PROCESS, Progress, Work, Workers
from bfpga.synthesis.resources import resources_of

#: Bits of mantissas with which most networks need no training of their own.
USUAL_MANTISSA_BITS = 8


@dataclass(frozen=True)
class ReadyTask:
    """A network and what it is judged by.

    recipes: options by the name of the recipe, the usual one first; later ones are for accelerators that lose more than
    ``drop`` points with it. calibration, samples: inputs that calibrate and that judge; None: noise, nothing.
    """

    network: Network
    recipes: Mapping[str, CompileOptions]
    calibration: Calibration | None = None
    samples: InputSamples | None = None
    drop: float = 0.5

    @cached_property
    def judge(self) -> Judge | None:
        """What judges the loss of accuracy; None without samples."""
        return None if self.samples is None else Judge(self.network, self.samples.inputs, self.samples.y)


@dataclass(frozen=True)
class Offer:
    """An accelerator and a recipe for the network: figures and what costs most, or why it cannot run the network.

    excess: how far the worst resource is above what may be taken (``limits``). input_zeros: share of zeros in what
    layers read, where samples say it.
    """

    accelerator: Accelerator
    recipe: str
    why: str = ""
    figures: Figures | None = None
    excess: float = 0.0
    zeros: str = "-"
    input_zeros: float | None = None
    advice: tuple[Advice, ...] = ()

    @property
    def name(self) -> str:
        """The accelerator, and the recipe where it is not the usual one."""
        return f"{self.accelerator.name} -r {self.recipe}" if self.recipe else self.accelerator.name

    @property
    def images_per_second(self) -> float:
        """Of a stream of samples, the host included; 0 where the network cannot run."""
        return 0.0 if self.figures is None else 1 / self.figures.seconds

    @property
    def loss(self) -> float:
        """Points below float; 0 where nothing judged."""
        return 0.0 if self.figures is None or self.figures.loss is None else self.figures.loss

    @property
    def is_doubtful(self) -> bool:
        """Whether its mantissas are too few for networks that were not trained for them, and nothing judged."""
        coarse = self.accelerator.config.format.mantissa_bits < USUAL_MANTISSA_BITS
        return coarse and (self.figures is None or self.figures.loss is None)

    @property
    def look_up_tables(self) -> float:
        """Share of the board's look-up tables."""
        return 0.0 if self.figures is None else self.figures.used["lut"] / self.accelerator.board.lut


@dataclass(frozen=True)
class Recommendation:
    """What to take. ties: others as fast within ``TIE``, the plainest of which is the best. behind: the fastest that is
    no tie. exact: whether it loses no more accuracy than it may; else it is the one that loses least."""

    best: Offer
    ties: tuple[Offer, ...] = ()
    behind: Offer | None = None
    exact: bool = True


@dataclass(frozen=True)
class Advised:
    """All that was tried, the fastest first, what to take, and the zeros of the network's weights."""

    offers: tuple[Offer, ...]
    recommendation: Recommendation
    zero_weights: float = field(default=0.0)

    @property
    def input_zeros(self) -> float | None:
        """Share of zeros in what layers read, a mean of layers; None where no samples say it."""
        return next((one.input_zeros for one in self.offers if one.input_zeros is not None), None)


def ready_names(board: Board | None) -> list[str]:
    """Names of the ready accelerators, of a board or of all, no demonstrators; ConfigurationError if there are none."""
    ready = [load_accelerator(name) for name in accelerator_names()]
    names = [one.name for one in ready if not one.demonstrator and (board is None or one.board == board)]
    if not names:
        assert board is not None
        raise ConfigurationError(
            f"no ready accelerator is for {board.title}; bfpga explore MODEL --board {board.name} searches for some"
        )
    return names


def advise(
    task: ReadyTask, names: Sequence[str], workers: Workers = IN_PROCESS, progress: Progress | None = None
) -> Advised:
    """Try the accelerators and say which one to take. ConfigurationError where none can run the network."""
    usual, *finer = task.recipes
    offers = list(workers.map(OFFERS, [(name, usual) for name in names], shared={"task": task}, progress=progress))
    if all(offer.figures is None for offer in offers):
        raise ConfigurationError(f"no accelerator runs the network: {offers[0].accelerator.name}: {offers[0].why}")
    again = [(name, recipe) for name in _lossy(offers, task.drop) for recipe in finer]
    if again:
        offers += workers.map(OFFERS, again, shared={"task": task}, progress=progress)
    offers.sort(key=lambda offer: -offer.images_per_second)
    return Advised(tuple(offers), recommend(offers, task.drop), zero_weights(task.network))


def _lossy(offers: Sequence[Offer], drop: float) -> Iterator[str]:
    """Accelerators that lose too much and are faster than any that does not."""
    reached = max((offer.images_per_second for offer in offers if offer.loss <= drop), default=0.0)
    for offer in offers:
        if offer.loss > drop and offer.images_per_second > reached:
            yield offer.accelerator.name


def recommend(offers: Sequence[Offer], drop: float) -> Recommendation:
    """The plainest of the fastest that fit their board and lose at most ``drop`` points. offers: one runs at least.

    Narrow mantissas need samples to show what they lose.
    """
    able = [offer for offer in offers if offer.figures is not None]
    fitting = [offer for offer in able if offer.excess <= 0] or able
    sure = [offer for offer in fitting if not offer.is_doubtful] or fitting
    good = [offer for offer in sure if offer.loss <= drop]
    if not good:
        return Recommendation(min(fitting, key=lambda offer: (offer.loss, -offer.images_per_second)), exact=False)
    fastest = max(offer.images_per_second for offer in good)
    ties = sorted((one for one in good if one.images_per_second >= (1 - TIE) * fastest), key=plainness)
    behind = max((one for one in good if one not in ties), key=lambda one: one.images_per_second, default=None)
    return Recommendation(ties[0], tuple(ties[1:]), behind)


def plainness(offer: Offer) -> tuple[int, bool, bool, int, int]:
    """Orders offers of one speed, the plainest first: kind of the array, recipe, static exponents, cores, look-up
    tables."""
    tables = 0 if offer.figures is None else offer.figures.used["lut"]
    config = offer.accelerator.config
    kind = KINDS.index(kind_of(config))
    return kind, bool(offer.recipe), config.static_exponents, offer.accelerator.cores, tables


#: Kinds of arrays, the plainest first.
KINDS = ("an array of DSP blocks", "shift columns", "an array that skips zeros")


def kind_of(config: KernelConfig) -> str:
    """The kind of an array, one of ``KINDS``."""
    if config.array.zeros != "none":
        return KINDS[2]
    return KINDS[1] if config.shift_columns or config.multiplier == "shift" else KINDS[0]


def _given(task: ReadyTask) -> ReadyTask:
    return task


def _offer(task: ReadyTask, tried: tuple[str, str]) -> Offer:
    """What an accelerator comes to with a recipe."""
    name, recipe = tried
    accelerator = load_accelerator(name)
    used = resources_of(accelerator).total
    over = excess(used, accelerator.board)
    try:
        program = compile_for_figures(task.network, accelerator, task.calibration, task.recipes[recipe])
    except BfpgaError as error:
        return Offer(accelerator, recipe, str(error), excess=over)
    sample = estimate_sample(accelerator, program, used)
    figures = sample_figures(sample)
    if task.judge is not None:
        loss = task.judge.score(program).lost
        figures = replace(figures, accuracy=task.judge.reached - loss, loss=loss)
    costs = advice(accelerator, program, sample.program)
    return Offer(accelerator, recipe, "", figures, over, _zeros(program), _input_zeros(program), tuple(costs))


#: Offers in any process: the task is what they share.
OFFERS: Work[ReadyTask, tuple[str, str], Offer] = Work(_given, _offer)


def _zeros(program: Program) -> str:
    """Zeros that take an array no time."""
    zeros = program.config.array.zeros
    if zeros == "none":
        return "-"
    known = zeros == "weights" or _input_zeros(program) is not None
    return zeros if known else f"{zeros}, not known"


def _input_zeros(program: Program) -> float | None:
    """Zeros in what layers read, a mean of those whose inputs were counted."""
    known = [
        node.input_density for node in program.nodes if isinstance(node, ArrayNode) and node.input_density is not None
    ]
    return 1 - sum(known) / len(known) if known else None
