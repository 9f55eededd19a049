"""The search for the cheapest precision: every step alone, then the best of them together, then what is left over.

1. *Sensitivity.* Each step is taken alone: how much noise of the outputs it takes away, what it costs in cycles.
2. *Raise.* Steps are taken together, those first that take the most noise for a cycle, until no more than the allowed
   points are lost. A step that does not help with the others is left out again.
3. *Prune.* Steps are given back, the most expensive first, if the others do as well without.
4. *Lower.* Steps that save cycles are taken if the loss stays allowed.

Points of few samples move in jumps, and changed classes gain as many points as they lose where luck has it. So noise
leads the way, and it is enough when the points lost and a quarter of the changed classes are both allowed; what makes
the result noisier must keep the loss allowed with one standard deviation to spare. The same arguments give the same
result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.compiler import Calibration, compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.errors import BfpgaError, ConfigurationError
from bfpga.precision.judge import Judge, Score, decibel
from bfpga.precision.steps import Step, applied, steps_of

Progress = Callable[[int, int], None]
#: A step is worth something if it takes away this share of the noise.
WORTH = 0.01
#: More parts are tried where fewer gain so much.
LEAST_GAIN_DB = 0.1
#: Times that steps are offered: with others that are taken, one may help that does not alone.
SWEEPS = 3
#: Points of counts are compared with this tolerance.
ROUNDING = 1e-9
#: Steps that alone make more noise than this are not offered with others.
LARGEST_LOSS_DB = -1.0
#: A step whose absence makes less noise than this factor does nothing with the others.
IDLE = 1.05


@dataclass
class Sensitivity:
    """What one step alone gains and costs, against the recipe the search began with."""

    step: Step
    score: Score
    gain_db: float
    extra_cycles: int
    #: Whether the result has the step.
    taken: bool = False


@dataclass
class Found:
    """The result of a search.

    start, score: before and after; met: whether no more than the allowed points are lost. refused: steps that the
    compiler did not take, with its reason.
    """

    options: CompileOptions
    program: Program
    start: Score
    score: Score
    allowed: float
    sensitivities: list[Sensitivity] = field(default_factory=list)
    refused: dict[Step, str] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return allowed(self.score, self.allowed)


def allowed(score: Score, drop: float) -> bool:
    """Whether a score loses no more than ``drop`` points, and will not on other samples by all appearance."""
    return score.risk <= drop + ROUNDING


def certain(score: Score, drop: float) -> bool:
    """Whether a loss within ``drop`` is not owed to the few samples."""
    return allowed(score, drop) and score.lost + score.spread <= drop + ROUNDING


def check_drop(drop: float) -> None:
    """ConfigurationError for points that cannot be lost."""
    if not 0 <= drop <= 100:  # so is NaN
        raise ConfigurationError(
            f"--accuracy-drop is {drop:g}; it is the points of accuracy that may be lost against float, a number from "
            "0 to 100, such as 0.3"
        )


class _Search:
    """Compiles and judges; remembers what it has seen."""

    def __init__(
        self,
        network: Network,
        accelerator: Accelerator,
        calibration: Calibration,
        judge: Judge,
        options: CompileOptions,
        progress: Progress | None,
    ) -> None:
        self.network, self.accelerator, self.calibration, self.judge = network, accelerator, calibration, judge
        self.options, self.progress = options, progress
        self.tried, self.expected = 0, 1

    def trial(self, steps: list[Step]) -> tuple[Program, Score]:
        """The program with steps, and what it loses."""
        options = applied(self.options, steps)
        program = compile_network(self.network, self.accelerator, self.calibration, options)
        score = self.judge.score(program)
        self.tried += 1
        if self.progress is not None:
            self.progress(min(self.tried, self.expected), self.expected)
        return program, score


def search(
    network: Network,
    accelerator: Accelerator,
    calibration: Calibration,
    judge: Judge,
    drop: float,
    options: CompileOptions | None = None,
    progress: Progress | None = None,
) -> Found:
    """The cheapest recipe found that loses no more than ``drop`` points on the judge's samples.

    options: where the search begins; what these say of a layer is a beginning too. Raises ConfigurationError for a drop
    that is no number of points, and what the compiler raises for the options themselves.
    """
    check_drop(drop)
    options = options or CompileOptions()
    work = _Search(network, accelerator, calibration, judge, options, progress)
    program, start = work.trial([])
    steps = steps_of(program, options, coarser=certain(start, drop))
    work.expected = 1 + len(steps) + (0 if allowed(start, drop) else len(steps))
    found = Found(options, program, start, start, drop)
    found.sensitivities = _sensitivities(work, steps, start, found.refused)
    taken = [] if allowed(start, drop) else _raise(work, found)
    if taken and found.met:
        taken = _prune(work, found, taken)
    if certain(found.score, drop):
        taken = _lower(work, found, taken)
    for item in found.sensitivities:
        item.taken = item.step in taken
    found.options = applied(options, taken)
    if progress is not None:
        progress(work.expected, work.expected)
    return found


def _sensitivities(work: _Search, steps: list[Step], start: Score, refused: dict[Step, str]) -> list[Sensitivity]:
    result: list[Sensitivity] = []
    for step in steps:
        if _hopeless(step, result):
            continue
        try:
            _, score = work.trial([step])
        except BfpgaError as error:  # a memory is too small for it, say
            refused[step] = str(error)
            continue
        result.append(Sensitivity(step, score, decibel(start.noise, score.noise), score.cycles - start.cycles))
    return result


def _hopeless(step: Step, known: list[Sensitivity]) -> bool:
    """Whether fewer parts of the same tensor gained nothing."""
    return any(
        item.step.key == step.key == "result_parts"
        and item.step.layer == step.layer
        and item.gain_db < LEAST_GAIN_DB
        for item in known
    )


def _worth(item: Sensitivity, start: Score) -> tuple[float, float]:
    """Noise that a step takes away for a cycle; what costs nothing comes first."""
    removed = start.noise - item.score.noise
    if item.extra_cycles <= 0:
        return (float("inf") if removed > 0 else removed), removed
    return removed / item.extra_cycles, removed


def _raise(work: _Search, found: Found) -> list[Step]:
    """Steps until the loss is allowed, or none is left that helps; fills in program and score."""
    start = found.start
    order = sorted(found.sensitivities, key=lambda item: _worth(item, start), reverse=True)
    taken: list[Step] = []
    for sweep in range(SWEEPS):
        before = taken
        least = LARGEST_LOSS_DB if sweep else 0.0
        useful = [item for item in order if item.gain_db > least]
        work.expected = max(work.expected, work.tried + len(useful))
        taken = _sweep(work, found, taken, useful)
        if found.met or (sweep and taken == before):
            break
    return taken


def _sweep(work: _Search, found: Found, taken: list[Step], useful: list[Sensitivity]) -> list[Step]:
    """Take each step that helps with those already taken, until the loss is allowed."""
    for item in useful:
        if item.step in taken or _surpassed(item.step, taken):
            continue
        tried = _with(taken, item.step)
        try:
            program, score = work.trial(tried)
        except BfpgaError as error:
            found.refused.setdefault(item.step, str(error))
            continue
        if score.noise <= (1 - WORTH) * found.score.noise:
            taken, found.program, found.score = tried, program, score
        if found.met:
            break
    return taken


def _surpassed(step: Step, taken: list[Step]) -> bool:
    """Whether a step with more parts of the same layer is taken."""
    same = [other for other in taken if (other.layer, other.key) == (step.layer, step.key)]
    return any(isinstance(step.value, int) and other.value > step.value for other in same)


def _with(taken: list[Step], step: Step) -> list[Step]:
    """Steps with one more; it replaces one for the same key of the same layer."""
    return [*(other for other in taken if (other.layer, other.key) != (step.layer, step.key)), step]


def _prune(work: _Search, found: Found, taken: list[Step]) -> list[Step]:
    """Give back steps that the others make unnecessary, the most expensive first."""
    extra = {item.step: item.extra_cycles for item in found.sensitivities}
    for step in sorted(taken, key=lambda step: extra[step], reverse=True):
        fewer = [other for other in taken if other != step]
        program, score = work.trial(fewer)
        idle = allowed(score, found.allowed) and score.noise <= IDLE * found.score.noise
        if (idle or certain(score, found.allowed)) and score.cycles < found.score.cycles:
            taken, found.program, found.score = fewer, program, score
    return taken


def _lower(work: _Search, found: Found, taken: list[Step]) -> list[Step]:
    """Take steps that save cycles, those that save the most first."""
    changed = {(step.layer, step.key) for step in taken}
    cheaper = [item for item in found.sensitivities if item.extra_cycles < 0]
    for item in sorted(cheaper, key=lambda item: item.extra_cycles):
        if (item.step.layer, item.step.key) in changed:
            continue
        try:
            program, score = work.trial([*taken, item.step])
        except BfpgaError:
            continue
        if certain(score, found.allowed) and score.cycles < found.score.cycles:
            taken, found.program, found.score = [*taken, item.step], program, score
    return taken
