"""Options that several commands have, each declared once, and how a command takes a group of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import typer

from bfpga.cli.completion import complete_accelerator, complete_model, complete_recipe
from bfpga.compiler.policy_names import POLICIES
from bfpga.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Self

Command = TypeVar("Command", bound=Callable[..., Any])

Model = Annotated[
    Path,
    typer.Argument(
        help="Network in ONNX format, or a name (bfpga models).", show_default=False, autocompletion=complete_model
    ),
]
AcceleratorArgument = Annotated[
    str,
    typer.Argument(
        help="Name of a ready accelerator or a YAML file.", show_default=False, autocompletion=complete_accelerator
    ),
]
AcceleratorOption = Annotated[
    str,
    typer.Option(
        "--accelerator", "-a", help="Name of a ready accelerator or a YAML file.", show_default=False,
        autocompletion=complete_accelerator,
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the results to FILE as JSON.", metavar="FILE")]
InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        help="Shape of an input whose sizes the file leaves open, batch first, such as image=1,3,224,224; repeatable. "
        "Without a name for networks with one input.",
        metavar="[NAME=]SIZES",
    ),
]
OutputNames = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        help="Compute these values of the network only, outputs or not; repeatable. class: scores without a final "
        "Softmax, LogSoftmax or Sigmoid, which leaves the largest where it is. Default: all outputs that are numbers.",
        metavar="NAME[,NAME]",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Share the work among the workers of a Dask scheduler, such as tcp://host:8786, or tls://host:8786 with "
        "the certificates that Dask's configuration names.",
        metavar="ADDRESS",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Picture of it: PNG, PDF or SVG; needs matplotlib.", metavar="FILE"),
]


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """A network, an accelerator, and the samples that run on it."""

    model: Model
    accelerator: AcceleratorOption
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", help="NPZ with x and, where known, y; default: the samples of a named network."),
    ] = None
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", "-c", help="NPZ with samples to calibrate with; default: the first 64 of the data."
        ),
    ] = None
    samples: Annotated[int | None, typer.Option("--samples", "-n", min=1, help="Use the first N samples only.")] = None
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, max=65536, help="Samples computed at once.")] = 64
    input_shape: InputShapes = None
    outputs: OutputNames = None
    json: Json = None

    @property
    def sample_file(self) -> Path:
        """The samples; ConfigurationError where neither the command nor the network's name gives any."""
        if self.data is None:
            raise ConfigurationError("--data is missing: a network file needs an NPZ with samples (x, and y if known)")
        return self.data

    def completed(self) -> Self:
        """With the samples of a named network, where none are given."""
        from bfpga.compiler.read.named import named_network

        network = named_network(self.model)
        if network is None or self.data is not None:
            return self
        return replace(self, data=network.samples_path, calibration=self.calibration or network.calibration_path)


@dataclass(frozen=True, kw_only=True)
class RunOptions(SampleOptions):
    """The same, and a report of it."""

    report: Annotated[
        Path | None,
        typer.Option("--report", help="Write a report as one HTML file (docs/report.md).", metavar="FILE"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ScaleOptions:
    """Who does work that can be shared out; without any of it, this process."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=256, help="Share the work among N processes of this machine.", metavar="N"
        ),
    ] = None
    scheduler: Scheduler = None


@dataclass(frozen=True, kw_only=True)
class ExponentOptions:
    """A recipe, and what of the exponents goes before it."""

    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", "-r", help="Name of a ready recipe or a YAML file; the options below go before it.",
            autocompletion=complete_recipe,
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="What decides on the exponents of activations:\n\n\b\n"
            + "\n".join(f"{name}: {purpose}" for name, purpose in POLICIES.items()),
        ),
    ] = None
    flow: Annotated[
        str | None,
        typer.Option(
            "--flow",
            help="With --policy dynamic, what precedes a layer: two_pass_sampled (a sample computed twice, the "
            "default with rule rate), two_pass (else the default), keep or keep_sampled (accumulators are kept), "
            "or auto (the fewest cycles).",
        ),
    ] = None
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            help="With --policy dynamic or delayed, how statistics of results become an exponent: rate (the default "
            "where the accelerator has position_bins), max, lsb, window or lead (else the default).",
        ),
    ] = None
    side_by_side: Annotated[
        int | None,
        typer.Option(
            "--side-by-side", min=1,
            help="Samples computed together, one a column (fully connected and recurrent networks).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """How much accuracy may be lost, and where the recipe that is found for it goes."""

    accuracy_drop: Annotated[
        float | None,
        typer.Option(
            "--accuracy-drop",
            help="Search a format and a precision for each layer, so that no more than POINTS of accuracy are lost "
            "against float, in as few cycles as possible.",
            metavar="POINTS",
        ),
    ] = None
    save_recipe: Annotated[
        Path | None,
        typer.Option("--save-recipe", help="With --accuracy-drop: the recipe found, for --recipe.", metavar="FILE"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How weights are held and where layers are computed."""

    formats: Annotated[
        str | None,
        typer.Option(
            "--formats",
            help="How weights are held where the array has a choice: auto (error and time, the default), linear, "
            "two_hot, power_of_two.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="Where layers are computed, on accelerators with two arrays: auto (the default) or systolic_array.",
        ),
    ] = None
    dispatch: Annotated[
        str | None,
        typer.Option(
            "--dispatch",
            help="How --engine auto chooses for each layer: cost (the fewest cycles, the default), majority (half of "
            "the input zero or more: the array that skips zeros) or band (from 80 % zeros that one, up "
            "to 40 % none, else by cycles).",
        ),
    ] = None


def grouped(command: Command) -> Command:
    """Let typer see the fields of a command's option groups (dataclasses) in the place of these parameters."""
    # Of a signature: `get_type_hints` hides the option of a default None in an Optional before Python 3.11.
    declared = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: item.annotation for name, item in declared.items() if is_dataclass(item.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in declared.items():
        single = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += _parameters(groups[name]) if name in groups else [single]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, kind in groups.items():
            group = kind(**{item.name: values.pop(item.name) for item in fields(kind)})
            values[name] = group.completed() if isinstance(group, SampleOptions) else group
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return cast(Command, call)


def _parameters(group: Any) -> list[inspect.Parameter]:
    """The fields of an option group as parameters of a command."""
    hints = get_type_hints(group, include_extras=True)
    empty = inspect.Parameter.empty
    return [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=empty if item.default is MISSING else item.default,
            annotation=hints[item.name],
        )
        for item in fields(group)
    ]
