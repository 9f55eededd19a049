"""What is explored: a network, a board, the samples that judge, and what one candidate comes to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from onnx import numpy_helper

from bfpga.accelerator.boards import Board
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.partition import in_steps_side_by_side
from bfpga.compiler.read.network import Network
from bfpga.contract.functions import FUNCTION_NAMES
from bfpga.contract.program import ArrayNode, Program
from bfpga.data import InputSamples
from bfpga.errors import BfpgaError, ModelError
from bfpga.explore.candidate import Candidate
from bfpga.explore.figures import Point, compile_for_figures, program_figures
from bfpga.explore.front import Goal
from bfpga.explore.limits import excess
from bfpga.explore.modelled_clock import MODELLED, usual_clock, verdict
from bfpga.explore.space import ROUNDED, Space, Values
from bfpga.precision.judge import Judge
from bfpga.synthesis.kept import packaged_figures
from bfpga.synthesis.resources import board_use


@dataclass(frozen=True)
class Task:
    """A search that can be repeated.

    board_name: as accelerator files name the board. calibration, samples: inputs that calibrate and that judge; None:
    noise calibrates and nothing judges. max_clock: MHz, the fastest clock that is tried. static: whether accelerators
    may have ``static_exponents``, where samples calibrate.
    """

    network: Network
    board: Board
    board_name: str
    goal: Goal
    max_clock: float
    calibration: Calibration | None = None
    samples: InputSamples | None = None
    seed: int = 0
    static: bool = True

    @cached_property
    def judge(self) -> Judge | None:
        """What judges the loss of accuracy; None without samples."""
        return None if self.samples is None else Judge(self.network, self.samples.inputs, self.samples.y)

    @cached_property
    def space(self) -> Space:
        """What is searched."""
        return Space(
            self.board,
            self.board_name,
            self._functions(),
            judged=self.samples is not None,
            together=self._together(),
            max_clock=self.max_clock,
            adds=any(node.adds_second for node in self._roomy),
            static=self._may_be_static,
        )

    def compiled(self, candidate: Candidate, accelerator: Accelerator) -> Program:
        """The network for a candidate; ModelError, DataError or ConfigurationError where that is not possible."""
        return compile_for_figures(self.network, accelerator, self.calibration, candidate.options)

    @cached_property
    def _roomy(self) -> list[ArrayNode]:
        """What an array computes of this network that has all functions, adds to its sums and has room for all."""
        space = Space(self.board, self.board_name, FUNCTION_NAMES, False, False, self.board.clock_default)
        values = {key: choices[0] for key, choices in space.choices.items()} | {"residual_adds": 1}
        values |= {"lanes": 2, "rows": 16, "activation_words": 4096, "weight_words": 4096, "accumulator_bits": 32}
        candidate = space.candidate(values)
        program = self.compiled(candidate, candidate.accelerator())
        return [node for node in program.nodes if isinstance(node, ArrayNode)]

    def _functions(self) -> tuple[str, ...]:
        """Functions that the array computes for this network if it has all of them."""
        used = {node.function.key for node in self._roomy}
        return tuple(name for name in FUNCTION_NAMES if name in used or name == "none")

    @property
    def _may_be_static(self) -> bool:
        """Whether accelerators without exponents that are found at run time are of use: samples give all of them."""
        return self.static and self.calibration is not None

    def _together(self) -> bool:
        """Whether samples may be computed side by side: networks of vectors with static exponents."""
        try:
            in_steps_side_by_side(self.network.graph(), 2, CompileOptions())
        except ModelError:
            return False
        return self.calibration is not None

    def ready(self) -> list[Candidate]:
        """The ready accelerators of the board that may be recommended, with which the search begins."""
        found = []
        for name in accelerator_names():
            accelerator = load_accelerator(name)
            if accelerator.board == self.board and (self._may_be_static or not accelerator.config.static_exponents):
                found.append(Candidate({"name": name}, {}, name))
        return found

    def point(self, number: int, candidate: Candidate, values: Values, front: Iterable[Point]) -> Point:
        """What a candidate comes to, in stages: constraints and resources, cycles, accuracy.

        front: the best so far; what could not join it is not judged. Raises a BfpgaError for a candidate that breaks a
        constraint, does not fit the board, or for which the network cannot be compiled.
        """
        accelerator = candidate.loaded()
        known = packaged_figures(accelerator) if candidate.origin else None
        used = board_use(accelerator).total
        over = excess(used, self.board)
        if over > 0 and not candidate.origin:
            raise TooLargeError(f"a resource is {100 * over:.1f} % of the board above its limit")
        program = self.compiled(candidate, accelerator)
        figures = program_figures(accelerator, program, used)
        clock, missed = verdict(known)
        point = Point(number, candidate, figures, values, max(over, 0.0), clock=clock, missed=missed)
        if self.judge is None:
            return point
        if not candidate.origin and self.is_beaten(point, front):
            return replace(point, beaten=True)
        score = self.judge.score(program)
        accuracy = self.judge.reached - score.lost
        return replace(point, figures=replace(figures, accuracy=accuracy, loss=score.lost, spread=score.spread))

    def is_beaten(self, point: Point, front: Iterable[Point]) -> bool:
        """Whether one of the front beats a point, however accurate it is."""
        exact = replace(point, figures=replace(point.figures, loss=0.0))
        return any(self.goal.beats(other, exact) for other in front)

    def may_offer(self, point: Point) -> bool:
        """Whether a point's clock is modelled, or no faster than what a synthesis found in time on this board."""
        if point.candidate.origin or point.clock == MODELLED:
            return True
        return float(point.candidate.described["clock_mhz"]) <= self.usual_clock + ROUNDED

    @cached_property
    def usual_clock(self) -> float:
        """MHz up to which a clock is tried without a synthesis (``explore.modelled_clock.usual_clock``)."""
        return usual_clock(self.board)

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must have in common to be of one study, in words and digests."""
        return {
            "network": _digest(self.network.model.SerializeToString(deterministic=True)),
            "board": _digest(repr(asdict(self.board)).encode()),
            "objective": self.goal.objective,
            "accuracy drop": self.goal.drop,
            "seed": self.seed,
            "space": _digest(repr(self.space.choices).encode()),
            "samples": None if self.samples is None else _digest(*_arrays(self.samples.inputs)),
            "calibration": None if self.calibration is None else _digest(*_arrays(self.calibration)),
        }


class TooLargeError(BfpgaError):
    """A candidate takes more of a resource than it may."""


def zero_weights(network: Network) -> float:
    """Share of the weights of a network that are zero."""
    tensors = [numpy_helper.to_array(item) for item in network.model.graph.initializer if len(item.dims) > 1]
    size = sum(tensor.size for tensor in tensors)
    return sum(int((tensor == 0).sum()) for tensor in tensors) / size if size else 0.0


def _arrays(values: Any) -> list[bytes]:
    arrays = values.values() if hasattr(values, "values") else [values]
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]
