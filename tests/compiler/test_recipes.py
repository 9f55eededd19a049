"""Recipes: options of the compiler as a YAML file, with exceptions by layer, and every mistake at its line (R36)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from key_tables import missing_rows

from bfpga.cli.options import EngineOptions, ExponentOptions
from bfpga.cli.work import compile_options
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.compiler.recipes import LayerSection, RecipeFile, load_recipe, recipe_names
from bfpga.errors import ConfigurationError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return path


def test_every_option_of_the_compiler_is_a_key_with_the_same_default() -> None:
    """R36: policy, k, window, history, limit and the rest; one truth for each default."""
    for model, options in ((LayerSection, LayerOptions), (RecipeFile, CompileOptions)):
        known = {item.name: item.default for item in fields(options) if item.name != "layers"}
        keys = {name: key.default for name, key in model.model_fields.items() if name not in ("layers", "description")}
        assert keys == known


def test_a_recipe_sets_the_knobs_of_the_network_and_of_layers(tmp_path: Path) -> None:
    """R36: policy, k, N, window and limit, for all layers and for one."""
    text = "policy: stats\nk: 4.0\nwindow: 64\nlayers:\n  conv1: {policy: feedback, limit: 3}\n"
    options = load_recipe(written(tmp_path, text))
    assert (options.policy, options.k, options.window) == ("stats", 4.0, 64)
    layer = options.layer("conv1")
    assert (layer.policy, layer.limit, layer.k) == ("feedback", 3, 4.0)
    assert options.layer("other").policy == "stats"


@pytest.mark.parametrize("name", recipe_names())
def test_ready_recipes_load(name: str) -> None:
    assert load_recipe(name) != CompileOptions()


def test_options_of_the_command_line_go_before_the_recipe(tmp_path: Path) -> None:
    path = str(written(tmp_path, "policy: max\nbias_correction: false\n"))
    engines = EngineOptions(engine="systolic_array")
    assert compile_options(engines, ExponentOptions(recipe=path)).policy == "max"
    options = compile_options(engines, ExponentOptions(recipe=path, policy="static"))
    assert (options.policy, options.bias_correction, options.engine) == ("static", False, "systolic_array")
    assert compile_options(EngineOptions()) == CompileOptions()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("polcy: max\n", r"line 1, polcy: unknown key; did you mean `policy`\?"),
        ("policy: maximum\n", r'line 1, policy: is "maximum"; must be one of auto, static, max'),
        ("k: 3.1\n", r"line 1, k: k = 3.1 is not a quarter"),
        ("\nwindow: 1000\n", r"line 2, window: window = 1000 is not a power of two"),
        ("layers:\n  c:\n    formats: four\n", r'line 3, layers.c.formats: is "four"; must be one of auto, linear'),
        ("engine: gpu\n", r'line 1, engine: is "gpu"; must be one of auto, systolic_array'),
        ("dispatch: cheap\n", r'line 1, dispatch: is "cheap"; must be one of cost, majority, band'),
        ("band_sparse: 30.0\n", r"line 1, band_sparse: band_sparse = 30.0 is not a percentage above band_dense = 40.0"),
        ("layers:\n  c: {histroy: 2}\n", r"line 2, layers.c.histroy: unknown key; did you mean `history`\?"),
        ("layers:\n  c: {side_by_side: 2}\n", r"line 2, layers.c.side_by_side: unknown key"),
        ("side_by_side: 4\npolicy: max\n", r"line 1: samples side by side share one exponent"),
        ("range: -1.0\n", r"line 1, range: is -1.0; must be a number above 0 and up to 1e\+30 or nothing"),
        ("limit: -1\n", r"line 1, limit: is -1; must be a whole number 0..1000000000"),
        ("- policy\n", r"holds a list"),
    ],
)
def test_mistakes_are_told_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_recipe(written(tmp_path, text))


def test_an_unknown_recipe_lists_the_ready_ones() -> None:
    with pytest.raises(ConfigurationError, match="known recipes: adaptive, two_hot, two_parts, uncalibrated"):
        load_recipe("nothing")


def test_documentation_names_every_key_with_its_values_and_meaning() -> None:
    text = (Path(__file__).parents[2] / "docs" / "accelerator-yaml.md").read_text()
    assert missing_rows(RecipeFile, text) == []
