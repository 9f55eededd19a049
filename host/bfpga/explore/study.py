"""The memory of a search: trials of Optuna, proposed by number and seed alone, kept in a SQLite file.

The sampler works on a study in memory; a trial reaches the file whole, when it is finished. What is proposed depends on
the seed, the number of the trial and the trials before it, so an interrupted study goes on as if it had not been.
"""

from __future__ import annotations

import random
import sqlite3
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.errors import ConfigurationError, ToolError
from bfpga.explore.figures import Point, point_of
from bfpga.explore.front import Goal
from bfpga.explore.space import Space, Values

if TYPE_CHECKING:
    import optuna

#: Trials that are drawn at random before the sampler learns.
RANDOM_TRIALS = 16
#: How often a neighbour is drawn again that was tried before.
DRAWS = 20
#: Name of the study in its file.
NAME = "explore"
#: Distance between seeds of trials.
STRIDE = 1_000_003


class Study:
    """Trials of one task. path: of the file; None: in memory alone."""

    def __init__(self, space: Space, goal: Goal, seed: int, identity: dict[str, Any], path: Path | None = None) -> None:
        self.optuna = _optuna()
        self.space, self.goal, self.seed = space, goal, seed
        self.trials = self.optuna.create_study(directions=["minimize"] * 3)
        self.kept = None if path is None else _open(self.optuna, path, identity)
        self.distributions: dict[str, Any] = {
            key: self.optuna.distributions.CategoricalDistribution(choices) for key, choices in space.choices.items()
        }
        if self.kept is not None:
            self.trials.add_trials(self.kept.get_trials(deepcopy=False))

    def __len__(self) -> int:
        return sum(trial.state.is_finished() for trial in self.trials.get_trials(deepcopy=False))

    def points(self) -> list[Point]:
        """What finished trials came to, refused ones left out."""
        clocks = (self.kept or self.trials).user_attrs.get("clocks", {})
        found = []
        for trial in self.trials.get_trials(deepcopy=False):
            if "point" in trial.user_attrs:
                point = point_of(trial.user_attrs["point"])
                found.append(replace(point, **clocks.get(str(point.number), {})))
        return found

    @property
    def refused(self) -> int:
        """Trials that ended before anything was compiled for them, or in the compiler."""
        return len(self) - len(self.points())

    def propose(self, number: int, leading: Sequence[Point]) -> Any:
        """Trial ``number``, its values in ``params``: from the sampler and next to a leading point by turns."""
        chance = random.Random(self.seed * STRIDE + number)
        if number >= RANDOM_TRIALS and number % 2 and leading:
            self.trials.enqueue_trial(self._near(leading, chance))
        self.trials.sampler = self.optuna.samplers.TPESampler(
            seed=chance.randrange(1 << 31), n_startup_trials=RANDOM_TRIALS, multivariate=True
        )
        return self.trials.ask(self.distributions)

    def _near(self, leading: Sequence[Point], chance: random.Random) -> dict[str, Any]:
        """Values next to those of a leading point, new ones if there are any."""
        tried, values = self.tried(), dict[str, Any]()
        for _ in range(DRAWS):
            values = self.space.neighbour(chance.choice(leading).values, chance)
            if values not in tried:
                break
        return values

    def tried(self) -> list[dict[str, Any]]:
        """Values of all trials."""
        return [trial.params for trial in self.trials.get_trials(deepcopy=False)]

    def propose_values(self, values: Values) -> Any:
        """The next trial with these values."""
        self.trials.enqueue_trial(dict(values))
        return self.trials.ask(self.distributions)

    def accept(self, trial: Any, point: Point, assumed: float) -> None:
        """End a trial with its figures. stand_in: points of accuracy in the place of those that were not judged."""
        time, joules, loss = self.goal.costs(point.figures)
        if point.figures.loss is None:
            loss = assumed
        trial.set_user_attr("point", point.content())
        trial.set_constraint("resources", point.excess)
        trial.set_constraint("accuracy", max(loss - self.goal.drop, 0.0))
        self._keep(self.trials.tell(trial, [time, joules, loss]))

    def refuse(self, trial: Any, reason: str) -> None:
        """End a trial whose accelerator cannot be, with the reason."""
        trial.set_user_attr("refused", reason)
        trial.set_constraint("resources", 1.0)
        self._keep(self.trials.tell(trial, state=self.optuna.trial.TrialState.PRUNED))

    def judge_clock(self, point: Point) -> None:
        """Remember what a synthesis said of a point's clock."""
        study = self.kept or self.trials
        known = {"clock": point.clock, "missed": point.missed}
        study.set_user_attr("clocks", {**study.user_attrs.get("clocks", {}), str(point.number): known})

    def _keep(self, trial: optuna.trial.FrozenTrial) -> None:
        if self.kept is not None:
            self.kept.add_trial(trial)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ToolError('a search needs Optuna: pip install "bfpga[explore]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _open(optuna: Any, path: Path, identity: dict[str, Any]) -> Any:
    """The study of a file, made where there is none; ConfigurationError for one of another task."""
    from sqlalchemy.exc import DatabaseError

    try:
        storage = optuna.storages.RDBStorage("sqlite://", {"creator": lambda: sqlite3.connect(path)})
        study = optuna.create_study(study_name=NAME, storage=storage, directions=["minimize"] * 3, load_if_exists=True)
    except (DatabaseError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"{path} is no study that can be resumed: {reason}; give another folder") from None
    known = study.user_attrs.get("task")
    if known is None:
        study.set_user_attr("task", identity)
    elif known != identity:
        different = ", ".join(key for key in identity if known.get(key) != identity[key])
        raise ConfigurationError(f"{path} is the study of another search ({different}); give another folder")
    return study
