"""Recipes: how a network is compiled, as a YAML file: policy, formats, exceptions by layer (BFP R36)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from bfpga.accelerator.boards import names, resolve
from bfpga.accelerator.sections import Section, validate
from bfpga.accelerator.yaml_reader import Document, read_document
from bfpga.compiler.options import (
    LARGEST_WINDOW,
    CompileOptions,
    DispatchRule,
    EngineChoice,
    FormatChoice,
    RuleName,
)
from bfpga.compiler.policy_names import PolicyName
from bfpga.contract.flows import Flow
from bfpga.contract.limits import RING_LEADS
from bfpga.errors import ConfigurationError
from bfpga.formats.files import replace_file

LayerName = Annotated[str, Field(min_length=1, max_length=400)]


class LayerSection(Section):
    """What may differ from layer to layer."""

    policy: PolicyName = Field("auto", description="how the exponents of activations are chosen")
    k: float = Field(3.0, gt=0, le=16, description="stats: factor of the standard deviation, in quarters")
    window: int = Field(1024, ge=1, le=LARGEST_WINDOW, description="stats: values in a window, a power of two")
    history: int = Field(4, ge=1, le=RING_LEADS, description="rolling_max: results that are remembered")
    limit: int = Field(0, ge=0, le=1000000000, description="feedback: overflows of a layer that are tolerated")
    range: Annotated[float, Field(gt=0, le=1e30)] | None = Field(None, description="known_range: the largest magnitude")
    exponent: int | None = Field(None, description="lookup: the exponent")
    formats: FormatChoice = Field("auto", description="how weights are held where the array has a choice")
    weight_snr_db: float = Field(25.0, ge=0, le=100, description="signal to noise that `auto` asks of a faster format")
    flow: Flow | None = Field(
        None, description="dynamic: what precedes a layer, and what of it is kept; null: as the rule asks for"
    )
    sample: int = Field(8, ge=1, le=64, description="dynamic: every how manieth row of a result is measured")
    rule: RuleName | None = Field(
        None, description="dynamic, delayed: how statistics of results become an exponent; null: rate where it can"
    )
    rate: int = Field(12, ge=0, le=16, description="rule rate: one of 2**rate values may saturate")
    margin: int = Field(0, ge=0, le=15, description="head room, added to exponents that are found at run time")
    engine: EngineChoice = Field("auto", description="which array computes, where the accelerator has two")
    dispatch: DispatchRule = Field("cost", description="how `auto` chooses an array: by cycles or by zeros")
    band_dense: float = Field(40.0, ge=0, le=100, description="band: up to this percentage of zeros an input is dense")
    band_sparse: float = Field(80.0, ge=0, le=100, description="band: from this percentage of zeros an input is sparse")
    result_parts: Literal[1, 2, 4] = Field(1, description="mantissas that hold each result together")
    weight_parts: Literal[1, 2] = Field(1, description="mantissas that hold each weight together")


class RecipeFile(LayerSection):
    """A recipe: options of the whole network, and layers that differ."""

    description: str = Field("", max_length=400, description="what it is for, in one sentence")
    exponents: Literal["mse", "max"] = Field("mse", description="static exponents: least error, or no overflow")
    weights: Literal["mse", "max"] = Field("mse", description="the same for rows of weights")
    bias_correction: bool = Field(True, description="mean errors of quantized weights are taken out of the biases")
    compensation: bool = Field(True, description="weights compensate each other's errors")
    equalize: bool = Field(True, description="channels of one tensor may be scaled by powers of two")
    fill_mantissas: bool = Field(True, description="tensors may be scaled by factors between powers of two")
    remainders: Literal["auto", "always", "never"] = Field(
        "auto", description="keep what rounding takes from input images; auto: in idle lanes"
    )
    cheap_parts: bool = Field(
        False, description="results of one pixel are held in several parts where that takes little time"
    )
    side_by_side: int = Field(
        1, ge=1, le=4096, description="samples computed together (fully connected and recurrent networks)"
    )
    recurrent: Literal["auto", "array", "host"] = Field(
        "auto", description="where RNN, GRU and LSTM are computed; auto: whole on the host if steps leave it more"
    )
    count_zeros: bool = Field(True, description="zeros of activations are counted on the calibration samples")
    layers: dict[LayerName, LayerSection] = Field({}, description="options of single layers, by layer or output name")


def recipe_names() -> list[str]:
    """Names of the ready recipes."""
    return names("networks")


def chosen_options(options: CompileOptions | str | Path | None) -> CompileOptions:
    """Options as such, of a recipe by its name or file, or the usual ones."""
    return load_recipe(options) if isinstance(options, (str, Path)) else options or CompileOptions()


def load_recipe(name_or_path: str | Path) -> CompileOptions:
    """The options of a ready recipe or of a YAML file.

    Raises ConfigurationError: one message with every problem of the file, each with line and key path.
    """
    document = read_document(resolve(name_or_path, "networks"), "a recipe")
    recipe: RecipeFile = validate(document, RecipeFile, "a recipe")
    given: dict[str, Any] = recipe.model_dump(exclude_unset=True, exclude={"description", "layers"})
    layers = {name: layer.model_dump(exclude_unset=True) for name, layer in recipe.layers.items()}
    for name, values in layers.items():
        _checked(document, ("layers", name), {**given, **values, "side_by_side": 1})
    options = _checked(document, (), {**given, "layers": layers})
    document.raise_problems("a recipe")
    assert options is not None
    return options


def save_recipe(options: CompileOptions, path: Path, description: str = "") -> None:
    """Write options as a recipe that ``load_recipe`` reads: what differs from the defaults.

    The file appears complete or not at all. ConfigurationError if it cannot be written.
    """
    defaults = CompileOptions()
    values: dict[str, Any] = {"description": description} if description else {}
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name != "layers" and value != getattr(defaults, item.name):
            values[item.name] = value
    layers = {name: dict(chosen) for name, chosen in options.layers.items() if chosen}
    if layers:
        values["layers"] = layers
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=1000) if values else "{}\n"
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot write the recipe there: {error.strerror}") from None


def _checked(document: Document, path: tuple[str, ...], values: dict[str, Any]) -> CompileOptions | None:
    """Options of these values; what contradicts itself becomes a problem of the file."""
    try:
        return CompileOptions(**values)
    except ConfigurationError as error:
        key = str(error).split(" ", 1)[0]
        document.refuse((*path, key) if key in values else path, str(error))
        return None
