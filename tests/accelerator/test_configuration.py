"""Accelerators and boards as YAML: what is read, what is refused, and what an array costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml
from changed_kernels import changed
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from key_tables import missing_rows

from bfpga.accelerator.boards import load_board, load_boards
from bfpga.accelerator.constraints import board_findings, config_findings, largest_columns, needed
from bfpga.accelerator.loader import (
    FIRST_LIGHT,
    accelerator_files,
    accelerator_names,
    load_accelerator,
    ready_accelerators,
)
from bfpga.accelerator.schema import (
    AcceleratorFile,
    BoardFile,
    ClusterArraySection,
    FormatSection,
    ShiftSection,
    SkipArraySection,
    SystolicSection,
    json_schema,
)
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import PROCESSES
from bfpga.contract.processes import kernel_processes, process_streams
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources, memory_blocks
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.engines.systolic.resources import array_dsp
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.synthesis.resources import board_use

ROOT = Path(__file__).parents[2]
READY = ROOT / "configs" / "accelerators"
#: A file of an array with collector and keep buffer.
DENSE = ROOT / "tests" / "data" / "dense.yaml"
VALID = DENSE.read_text()


def write(folder: Path, text: str) -> Path:
    path = folder / "accelerator.yaml"
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> str:
    """Message of a file that must be refused."""
    with pytest.raises(ConfigurationError) as caught:
        load_accelerator(write(folder, text))
    return str(caught.value)


@pytest.mark.parametrize("name", accelerator_names())
def test_ready_accelerator_loads_and_fits_its_board(name: str, tmp_path: Path) -> None:
    accelerator = load_accelerator(name)
    total = board_use(accelerator, tmp_path).total
    assert accelerator.name == name
    assert total.dsp <= accelerator.board.dsp
    assert total.bram36 <= accelerator.board.bram36
    assert total.lut <= 0.85 * accelerator.board.lut
    assert config_findings(accelerator.config) == []


def test_five_ready_accelerators_and_eight_boards_are_always_there() -> None:
    wanted = {"pynq_z2_dense", "pynq_z2_bfp16", "zcu104_dense", "kv260_dense", "tiny"}
    assert wanted <= set(accelerator_names())
    boards = {"pynq_z1", "pynq_z2", "ultra96_v2", "zcu104", "kv260", "rfsoc_2x2", "rfsoc_4x2", "aup_zu3"}
    assert boards <= {board.name for board in load_boards()}


def test_an_accelerator_has_the_numbers_of_its_file() -> None:
    config = load_accelerator(DENSE).config
    assert (config.columns, config.rows, config.lanes, config.multiplier) == (12, 16, 2, "dsp_packed")
    assert (config.format.mantissa_bits, config.accumulator_bits, config.banks) == (8, 32, 13)
    assert config.macs_per_clock == 384


def test_automatic_accumulator_follows_the_mantissa(tmp_path: Path) -> None:
    assert load_accelerator("pynq_z2_bfp16").config.accumulator_bits == 48
    text = VALID.replace("{profile: bfp8}", "{mantissa_bits: 6}")
    config = load_accelerator(write(tmp_path, text)).config
    assert (config.format.mantissa_bits, config.format.exponent_bits, config.accumulator_bits) == (6, 8, 32)


def test_keys_override_the_profile(tmp_path: Path) -> None:
    text = VALID.replace("{profile: bfp8}", "{profile: bfp8, exponent_bits: 5, rounding: half_up}")
    expected = BlockFormat(8, 5, rounding="half_up")
    assert load_accelerator(write(tmp_path, text)).config.format == expected


def test_digest_depends_on_numbers_only(tmp_path: Path) -> None:
    original = load_accelerator(DENSE).digest
    renamed = VALID.replace("name: dense", "name: other").replace("a full", "One").replace("142", "142.0")
    assert load_accelerator(write(tmp_path, renamed)).digest == original
    reordered = VALID.replace("[none, relu, leaky_relu,", "[leaky_relu, none, relu,")
    assert load_accelerator(write(tmp_path, reordered)).digest == original
    for line_of in ("columns: 11", "weight_words: 2048", "wide_words: 512", "clock_mhz: 100"):
        key = line_of.split(":")[0]
        lines = [line if key + ":" not in line else line[: line.index(key)] + line_of for line in VALID.splitlines()]
        assert load_accelerator(write(tmp_path, "\n".join(lines))).digest != original


def test_unknown_key_names_line_path_and_nearest_key(tmp_path: Path) -> None:
    message = refusal(tmp_path, VALID.replace("columns:", "colums:"))
    assert "line 9, engines[0].colums: unknown key; did you mean `columns`?" in message
    assert "engines[0].columns: missing; must be a whole number 1..128" in message


def test_every_problem_of_a_file_is_in_one_message(tmp_path: Path) -> None:
    text = VALID.replace("rows: 16", "rows: many").replace("clock_mhz: 142", "clock_mhz: .nan")
    message = refusal(tmp_path, text.replace("wide_memory: false", "wide_memory: 1\n    wide_memry: 2"))
    wrong = ("engines[0].rows", "engines[0].wide_memory: is 1", "wide_memry: unknown")
    for part in (*wrong, "clock_mhz: .nan is not a finite number"):
        assert part in message


def test_array_with_300_dsp_is_refused_on_a_pynq_z2_with_the_largest_that_fits(tmp_path: Path) -> None:
    text = VALID.replace("columns: 12", "columns: 25").replace("rows: 16", "rows: 6").replace("dsp_packed", "dsp")
    text = text.replace("position_bins: 16", "position_bins: 0")
    message = refusal(tmp_path, text)
    assert "300 DSP blocks in its dot tiles" in message
    assert "301 DSP blocks in all, more than the 220" in message
    assert "of TUL PYNQ-Z2" in message
    assert "at most 18 columns fit" in message
    assert load_accelerator(write(tmp_path, text.replace("columns: 25", "columns: 18"))).config.columns == 18
    assert "at most 18" in refusal(tmp_path, text.replace("columns: 25", "columns: 19"))


def test_memories_that_exceed_the_board_are_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, VALID.replace("weight_words: 8192", "weight_words: 65536"))
    assert "block memories (36 Kbit)" in message
    assert "not even one column fits" in message


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("rows: 16", "rows: 15", "must be a multiple of lanes = 2"),
        ("lanes: 2", "lanes: 1\n    accumulator_bits: 17", "given twice"),
        ("bfp8", "bfp16", "needs mantissas of 8 bits or less, not 16"),
        ("accumulator_bits: auto", "accumulator_bits: 17", "must be 18..58"),
        ("bias_bits: 18", "bias_bits: 32\n    extra: 1", "unknown key"),
        ("parameter_rows: 2048", "parameter_rows: 15", "must be at least the 16 channels of a pass"),
        ("dsp_packed\n", "shift\n    shift_columns: 2\n", "with `multiplier: shift` all columns shift"),
        ("dsp_packed\n", "dsp_packed\n    shift: {exp_width: 3}\n", "describes shift units; the array has none"),
        ("{profile: bfp8}", "{mantissa_bits: 17}\n    shift_columns: 1", "shift units take 16"),
        ("[none, relu,", "[relu,", "lacks `none`"),
        ("position_bins: 16", "position_bins: 7", "is 7; must be 8..64, or 0 for a kernel without a collector"),
        ("wide_words: 1024", "wide_words: 1000", "is 1000; must be a multiple of 64: 960 or 1024"),
        ("wide_words: 1024", "wide_words: 16384", "block memories (36 Kbit) in all, more than the 140"),
        ("position_bins: 16", "position_bins: 65", "must be a whole number 0..64"),
        ("[none, relu,", "[none, none,", "names a function twice"),
        ("clock_mhz: 142", "clock_mhz: 300", "must be 25..200 on TUL PYNQ-Z2"),
        ("clock_mhz: 142", "clock_mhz: 171.3", "line 5, clock_mhz: is 171.3, which cannot be divided"),
        ("clock_mhz: 142", "clock_mhz: 171.3", "the nearest possible: 166.667 and 200"),
        ("{profile: bfp8}", "{exponent_bits: 8}", "must give a profile"),
        ("board: pynq_z2", "board: pynq_z3", "did you mean `pynq_z2`?"),
    ],
)
def test_constraint_between_keys_is_explained(tmp_path: Path, old: str, new: str, part: str) -> None:
    assert part in refusal(tmp_path, VALID.replace(old, new))


def test_a_keep_buffer_or_a_collector_that_is_too_large_is_refused_with_the_largest_that_fits(tmp_path: Path) -> None:
    """FP 7: one memory a column, one table for bins; the remedy is not to drop columns."""
    message = refusal(tmp_path, VALID.replace("wide_words: 1024", "wide_words: 16384"))
    best = int(re.search(r"engines\[0\]\.wide_words: .* at most (\d+) fit", message).group(1))  # type: ignore[union-attr]
    assert load_accelerator(write(tmp_path, VALID.replace("wide_words: 1024", f"wide_words: {best}"))).config
    assert "at most" in refusal(tmp_path, VALID.replace("wide_words: 1024", f"wide_words: {best + 64}"))
    full = load_accelerator(DENSE)
    board = replace(full.board, lut=needed(replace(full.config, position_bins=24)).lut)
    (finding,) = board_findings(replace(full.config, position_bins=64), board)
    assert finding.key == "position_bins"
    assert "at most 24 bins fit" in finding.text


def test_keep_buffers_take_a_memory_a_column_and_collectors_none() -> None:
    """FP 7: columns x wide_words x accumulator_bits; counters are registers, not memory."""

    def post(config: KernelConfig) -> Resources:
        return estimate_resources(config).parts["post"]

    config = KernelConfig(columns=5, accumulator_bits=32, position_bins=32, wide_words=1024)
    none = post(replace(config, position_bins=0, wide_words=0))
    assert (post(config).bram36, none.bram36) == (5, 0)  # 1024 x 36
    assert post(replace(config, accumulator_bits=48)).bram36 == 10
    assert post(config).dsp == none.dsp
    assert post(config).ff >= none.ff + 32 * 32
    wider = post(replace(config, position_bins=64))
    assert wider.lut > post(config).lut > none.lut


def test_odd_rows_and_wide_words_are_refused() -> None:
    """BFP 7: two rows share a DSP block; the terms of one clock must stay within the packing limit."""
    odd = KernelConfig(rows=3, lanes=1, multiplier="dsp_packed")
    assert Finding("rows", "is 3; must be even for dsp_packed: two rows share a DSP block") in config_findings(odd)
    narrow = KernelConfig(format=BlockFormat(16), lanes=4, stream_bits=32, accumulator_bits=48)
    assert [finding.key for finding in config_findings(narrow)] == ["stream_bits"]


def test_four_products_share_a_block_of_two_rows_and_two_columns() -> None:
    quad = KernelConfig(format=BlockFormat(4), lanes=4, multiplier="dsp_quad", array=SystolicArray(6))
    assert config_findings(quad) == []
    assert array_dsp(quad) == quad.macs_per_clock // 4
    text = "is dsp_quad, which needs mantissas of 4 or 5 bits, not {}; must be {}"
    for bits, other in ((6, "dsp_packed"), (8, "dsp_packed"), (9, "dsp")):
        found = config_findings(replace(quad, format=BlockFormat(bits)))
        assert found == [Finding("multiplier", text.format(bits, other))]
    even = "must be even for dsp_quad: two rows and two columns share a DSP block"
    assert config_findings(replace(quad, columns=7, array=SystolicArray())) == [Finding("columns", f"is 7; {even}")]
    assert config_findings(replace(quad, rows=7, lanes=1)) == [Finding("rows", f"is 7; {even}")]
    assert config_findings(replace(quad, array=SystolicArray(3))) == [
        Finding("hop_columns", "is 3; must be even and divide the 12 columns: 2, 4, 6, 12, or 0 for all of them")
    ]


def test_weights_of_four_products_a_block_have_four_bits() -> None:
    """Pixels may have five: weights keep their range and their containers, and tensors are no weights."""
    wide = KernelConfig(format=BlockFormat(5, saturation="full"), lanes=4, multiplier="dsp_quad")
    narrow = replace(wide, format=BlockFormat(4))
    assert config_findings(wide) == config_findings(narrow) == []
    assert (wide.weight_bits, wide.weight_container_bits, wide.largest_weight("linear")) == (4, 4, 7)
    assert wide.largest_product == 7 * 16
    assert config_findings(replace(wide, columns=16, operand_weights=True))[0] == Finding(
        "operand_weights", "is true; mantissas must have the 4 bits of a weight for that"
    )
    assert config_findings(replace(narrow, columns=16, operand_weights=True)) == []


def test_no_shift_columns_stand_beside_four_products_a_block(tmp_path: Path) -> None:
    four = VALID.replace("{profile: bfp8}", "{mantissa_bits: 4}").replace("dsp_packed\n", "dsp_quad\n")
    config = load_accelerator(write(tmp_path, four)).config
    assert (config.multiplier, config.macs_per_clock, array_dsp(config)) == ("dsp_quad", 384, 96)
    message = refusal(tmp_path, four + "    shift_columns: 2\n")
    assert "shift_columns: is 2; must be 0 for dsp_quad" in message


def test_as_many_pairs_of_columns_are_offered_as_fit() -> None:
    """13 columns would fit, of which the last one has none to share its blocks with."""
    quad = KernelConfig(
        format=BlockFormat(4), columns=40, lanes=4, multiplier="dsp_quad", activation_words=64, weight_words=16
    )
    target = replace(load_board("pynq_z2"), dsp=211, lut=10**9, ff=10**9)
    assert largest_columns(quad, target) == 12


def test_columns_are_in_equal_hops(tmp_path: Path) -> None:
    """R62: every block of columns gets the weights a clock after the one before it."""
    config = load_accelerator(write(tmp_path, VALID + "    hop_columns: 4\n")).config
    assert config.array == SystolicArray(4)
    uneven = refusal(tmp_path, VALID + "    hop_columns: 5\n")
    assert "hop_columns: is 5; must divide the 12 columns: 1, 2, 3, 4, 6, 12, or 0 for all of them" in uneven


@pytest.mark.parametrize("form", ["processes", "loop", "auto"])
def test_a_file_that_says_the_form_of_its_kernel_is_told_to_leave_the_key_out(tmp_path: Path, form: str) -> None:
    """Earlier versions had two forms; there is one problem, at the key's line."""
    line = VALID.count("\n") + 1
    message = refusal(tmp_path, f"{VALID}    kernel: {form}\n")
    text = "unknown key; every kernel is one of processes now (docs/kernel.md): leave the key out"
    assert message.splitlines()[1:] == [f"  line {line}, engines[0].kernel: {text}"]


def test_a_file_with_operands_that_travel_or_not_is_told_what_is_in_their_place(tmp_path: Path) -> None:
    """The key `skew` of earlier versions; other former keys are told beside it."""
    message = refusal(tmp_path, f"{VALID}    skew: false\n    kernel: loop\n")
    skew, kernel = message.splitlines()[1:]
    assert "engines[0].skew: unknown key; weights go from block to block of columns by `hop_columns` now" in skew
    assert "engines[0].kernel: unknown key; every kernel is one of processes now" in kernel


def test_accumulators_that_do_not_fit_a_word_of_the_activation_memory_are_not_kept_there(tmp_path: Path) -> None:
    kept = refusal(tmp_path, VALID.replace("wide_memory: false", "wide_memory: true"))
    assert "wide_memory: is true; an accumulator of 32 bits must fit a word of lanes x mantissa = 16" in kept
    for mantissa, fits in ((16, True), (18, False)):
        form = BlockFormat(mantissa)
        wide = KernelConfig(format=form, lanes=4, accumulator_bits=48, stream_bits=128, wide_memory=True)
        text = f"is true; a word of lanes x mantissa = {4 * mantissa} bits must have 64 bits at most"
        assert [one.text for one in config_findings(wide)] == ([] if fits else [text])


def test_a_first_light_is_the_same_accelerator_at_its_slower_clock(tmp_path: Path) -> None:
    """A board's first bitstream is easier to meet; it is another design, so it has another digest."""
    ready = [accelerator for accelerator in ready_accelerators() if accelerator.name.endswith(FIRST_LIGHT)]
    for slow in ready:
        usual = load_accelerator(slow.path.stem)
        assert (slow.name, slow.config) == (f"{usual.name}{FIRST_LIGHT}", usual.config)
        assert slow.clock_mhz == usual.first_light_mhz <= usual.clock_mhz
        assert (slow.digest == usual.digest) == (slow.clock_mhz == usual.clock_mhz)
        assert load_accelerator(slow.name) == slow
        assert accelerator_files(slow.name) == accelerator_files(usual.name)
    with pytest.raises(ConfigurationError, match="zcu104_zero_skip has no key first_light_mhz"):
        load_accelerator(f"zcu104_zero_skip{FIRST_LIGHT}")
    with pytest.raises(ConfigurationError, match="neither a file nor a known name"):
        load_accelerator(f"nothing{FIRST_LIGHT}")
    given = VALID.replace("clock_mhz: 142", "clock_mhz: 142\nfirst_light_mhz: 100")
    assert load_accelerator(write(tmp_path, given)).first_light_mhz == 100
    assert "first_light_mhz: is 166; must be 25..142" in refusal(tmp_path, given.replace("100", "166"))
    assert "first_light_mhz: is 96, which cannot be divided" in refusal(tmp_path, given.replace("100", "96"))


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean `pynq_z2_dense`"):
        load_accelerator("pynq_z2_dens")


def test_a_board_is_one_file(tmp_path: Path) -> None:
    text = (ROOT / "configs/boards/pynq_z1.yaml").read_text().replace("dsp: 220", "dsp: 60")
    (tmp_path / "small.yaml").write_text(text.replace("name: pynq_z1", "name: small"))
    assert load_board(tmp_path / "small.yaml").dsp == 60
    message = refusal(tmp_path, VALID.replace("board: pynq_z2", "board: small.yaml"))
    assert "more than the 60 of" in message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  count: 2", "  counts: 2", "unknown key; did you mean `count`"),
        ("  count: 2\n", "", "missing; must be a whole number 1..64"),
        ("  count: 2", "  count: many", "must be a whole number 1..64"),
        ("  count: 2", "  count: 2\n  colour: red", "unknown key"),
    ],
)
def test_a_section_that_may_be_left_out_is_checked_where_it_is_given(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = (ROOT / "configs/boards/pynq_z1.yaml").read_text().replace(f"arm_cores:\n{old}", f"arm_cores:\n{new}")
    path = tmp_path / "board.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_board(path)
    assert "arm_cores" in str(caught.value)
    assert message in str(caught.value)


def test_a_board_whose_default_clock_cannot_be_made_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "configs/boards/kv260.yaml").read_text()
    path = tmp_path / "board.yaml"
    path.write_text(text.replace("default: 187.5", "default: 200"))
    with pytest.raises(ConfigurationError, match=r"clock_mhz\.default: is 200, .*: 187\.5 and 214\.286"):
        load_board(path)


def test_a_wrong_key_in_a_section_that_may_be_left_out_is_explained(tmp_path: Path) -> None:
    text = (ROOT / "configs/boards/pynq_z2.yaml").read_text()
    path = tmp_path / "board.yaml"
    path.write_text(text.replace("assumed_gflops:", "asumed_gflops:").replace("clock_mhz: 650", "clock_mhz: fast"))
    with pytest.raises(ConfigurationError) as caught:
        load_board(path)
    assert "arm_cores.asumed_gflops: unknown key; did you mean `assumed_gflops`?" in str(caught.value)
    assert "arm_cores.assumed_gflops: missing; must be a number above 0" in str(caught.value)
    assert 'arm_cores.clock_mhz: is "fast"; must be a number above 0' in str(caught.value)


def test_json_schema_accepts_what_the_loader_accepts() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in READY.glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "board": "pynq_z2", "clock_mhz": 100, "engines": []}, schema)


def test_a_pass_over_powers_of_two_needs_parameters_for_two_channels_a_row(tmp_path: Path) -> None:
    """SM R31: two accumulators a tile."""
    text = VALID.replace("dsp_packed", "shift").replace("parameter_rows: 2048", "parameter_rows: 31")
    assert "must be at least the 32 channels of a pass" in refusal(tmp_path, text)


#: 16 groups of 24 lanes, whatever the ready one has.
SKIP = re.sub("columns: .*", "columns: 12", (READY / "pynq_z2_zero_skip.yaml").read_text())
SKIP = re.sub("weight_words: .*", "weight_words: 4096", SKIP)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("columns: 12", "columns: 13", "columns: is 13; must be even for a skip array"),
     ("profile: bfp8", "profile: bfp16", "format: has mantissas of 16 bits; a skip array takes 8 at most"),
     ("chunk: 256", "chunk: 128", "rows: is 128; must be less than chunk = 128"),
     ("rows: 128", "rows: 126", "rows: is 126; must be a multiple of lanes = 4"),
     ("parameter_rows: 2048", "parameter_rows: 64", "is 64; must be at least the 128 channels of a pass"),
     ("lanes: 4", "lanes: 4\n    multiplier: shift", "multiplier: unknown key"),
     ("groups: 16", "groups: 24", "288 DSP blocks in its dot tiles")],
)  # fmt: skip
def test_wrong_numbers_of_a_skip_array_are_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert said in refusal(tmp_path, SKIP.replace(old, new, 1))


#: The same number of products for activations that are not zero: 24 groups of 16 lanes.
ACTIVATIONS = re.sub("groups: .*", "source: activations", re.sub("rows: 128", "passes: 16", SKIP))
ACTIVATIONS = re.sub("weight_words: .*", "weight_words: 2048", ACTIVATIONS)


def test_a_skip_array_of_activations_has_a_group_for_each_pixel(tmp_path: Path) -> None:
    """Weight words are those of an array of 16 rows: a copy of 512 for each group; sums of 16 passes, twice."""
    config = load_accelerator(write(tmp_path, ACTIVATIONS)).config
    array = config.array
    assert (array.skip_groups(config), config.rows, array.run_passes(config)) == (24, 16, 16)
    assert (array.zeros, array.stores_entries) == ("activations", False)
    assert config.macs_per_clock == 384
    assert (config.weight_word_bits, config.array.weights_of_word(config)) == (16 * 4 * 8, 64)
    part = estimate_resources(config).parts["array"]
    assert (part.dsp, part.bram36) == (192, 24 * 2 + memory_blocks(2 * 16 * 2 * 16, 288))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("passes: 16", "groups: 16", "engines[0].groups: is of `source: weights`; with activations each pixel"),
     ("source: activations", "source: weights", "engines[0].passes: is of `source: activations`"),
     ("source: activations", "wide_words: 0", "engines[0].passes: is of `source: activations`"),
     ("source: activations", "source: zeros", "engines[0].source: is"),
     ("passes: 16", "passes: 65", "engines[0].passes: is 65"),
     ("passes: 16", "rows: 14", "engines[0].rows: is 14; must be a multiple of lanes = 4"),
     ("lanes: 4", "lanes: 1\n    rows: 15", "engines[0].rows: is 15; must be even and 64 at most"),
     ("passes: 16", "rows: 68", "engines[0].rows: is 68; must be even and 64 at most"),
     ("profile: bfp8", "profile: bfp16", "format: has mantissas of 16 bits; a skip array takes 8 at most"),
     ("parameter_rows: 2048", "parameter_rows: 8", "is 8; must be at least the 16 channels of a pass"),
     ("columns: 12", "columns: 16", "256 DSP blocks in its dot tiles")],
)  # fmt: skip
def test_wrong_numbers_of_a_skip_array_of_activations_are_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in ACTIVATIONS
    assert said in refusal(tmp_path, ACTIVATIONS.replace(old, new, 1))


def test_a_systolic_array_beside_a_skip_array_has_its_numbers(tmp_path: Path) -> None:
    text = ACTIVATIONS.replace("passes: 16", "dense_beside: true").replace("columns: 12", "columns: 4")
    config = load_accelerator(write(tmp_path, text)).config
    assert config.array.has_both
    assert (config.macs_per_clock, config.array.skip_products(config)) == (4 * 16 * 4, 8 * 16)
    parts = estimate_resources(config).parts
    assert (parts["array"].dsp, parts["skip_array"].dsp) == (128, 64)
    assert kernel_processes(config) == (*PROCESSES, "skip_array")
    ends = {stream.name: (stream.source, stream.target) for stream in process_streams(config)}
    assert ends["skip_operands"] == ("scratchpad", "skip_array")
    assert ends["skip_words"] == ("weights", "skip_array")
    assert ends["skip_sums"] == ("skip_array", "post")
    assert ends["windows"] == ("skip_array", "scratchpad")
    message = refusal(tmp_path, SKIP.replace("groups: 16", "groups: 16\n    dense_beside: true"))
    assert "engines[0].dense_beside: is true; only a skip array of source activations" in message


def test_columns_of_a_skip_array_of_activations_may_be_odd(tmp_path: Path) -> None:
    """Two kernels share a DSP block there, not two columns."""
    config = load_accelerator(write(tmp_path, ACTIVATIONS.replace("columns: 12", "columns: 11"))).config
    assert (config.columns, config.array.skip_groups(config)) == (11, 22)
    for key, wrong in {"passes": 3, "chunk": 96, "queue": 2}.items():
        assert [item.key for item in config_findings(changed(config, **{f"array_{key}": wrong}))] == [key]


def test_a_kernel_has_one_engine(tmp_path: Path) -> None:
    _, _, array = VALID.partition("engines:\n")
    message = refusal(tmp_path, SKIP + array)
    assert "engines: is a list; must be a list with one element of a section of keys" in message


@pytest.mark.parametrize(
    ("kind", "successor"),
    [
        ("zero_skip", "a skip_array with `source: weights`, of `form: windows` or `form: tile`"),
        ("sparse_cluster", "a sparse_cluster_array, or a skip_array with `source: activations`"),
    ],
)
def test_files_of_engines_beside_the_array_are_told_what_has_taken_their_place(
    tmp_path: Path, kind: str, successor: str
) -> None:
    """SC R154."""
    message = refusal(tmp_path, f"{VALID}  - {{kind: {kind}, kernels_in_flight: 8}}\n")
    assert message.count("\n") == 1
    assert f"engines[1].kind: is {kind}; kernels have no engine in addition to their array any more" in message
    assert f"instead of the array write {successor}" in message


def test_a_skip_array_has_the_dsp_blocks_of_its_products_and_its_own_memories(tmp_path: Path) -> None:
    """16 groups of 24 lanes, two in a block; 512 words of 192 bits 16 times for windows, 512 of 288 bits for sums."""
    config = load_accelerator(write(tmp_path, SKIP)).config
    assert config.macs_per_clock == 384
    assert config.beats_per_weight_word == 5
    parts = estimate_resources(config).parts
    assert (parts["array"].dsp, parts["array"].bram36) == (192, 16 * 3 + 4)
    assert parts["weights"].bram36 == 4096 * 288 // 36864 + memory_blocks(2048, 18)


def test_committed_json_schema_is_current() -> None:
    """`bfpga schema` writes configs/accelerator.schema.json."""
    assert json.loads((ROOT / "configs/accelerator.schema.json").read_text()) == json_schema()


def test_documentation_names_every_key_with_its_values_and_meaning() -> None:
    text = (ROOT / "docs/accelerator-yaml.md").read_text()
    engines = (SystolicSection, SkipArraySection, ClusterArraySection)
    for model in (AcceleratorFile, *engines, FormatSection, ShiftSection, BoardFile):
        assert missing_rows(model, text) == []


@pytest.mark.parametrize(
    ("multiplier", "columns", "dsp"),
    [
        ("dsp", 1, 32), ("dsp", 6, 192), ("dsp_packed", 1, 16), ("dsp_packed", 12, 192), ("dsp_packed", 13, 208),
        ("dsp_quad", 2, 16),
    ],
)
def test_dot_tiles_cost_the_specified_dsp_blocks(multiplier: str, columns: int, dsp: int) -> None:
    """BFP 7: 32 DSP blocks a 16-row column, 16 when two 8-bit products share one."""
    assert array_dsp(KernelConfig(columns=columns, multiplier=multiplier)) == dsp  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("board", "multiplier", "columns"),
    [("pynq_z2", "dsp", 6), ("pynq_z2", "dsp_packed", 13), ("ultra96_v2", "dsp", 11), ("ultra96_v2", "dsp_packed", 22)],
)
def test_board_holds_the_columns_the_specification_counts(board: str, multiplier: str, columns: int) -> None:
    """BFP 7, table: columns that fit the DSP blocks of 220 and 360."""
    one = KernelConfig(columns=1, multiplier=multiplier)  # type: ignore[arg-type]
    assert load_board(board).dsp // array_dsp(one) == columns


def test_thirteen_packed_columns_fit_a_pynq_z2() -> None:
    """BFP 7: 13 columns; the statistics unit has room beside them."""
    config = KernelConfig(columns=20, multiplier="dsp_packed", activation_words=64, weight_words=16)
    target = replace(load_board("pynq_z2"), lut=10**9, ff=10**9)
    assert largest_columns(config, target) == 13


@pytest.mark.parametrize(
    ("depth", "width", "blocks"),
    [(512, 72, 1), (512, 512, 8), (1024, 36, 1), (4096, 16, 2), (4096, 256, 29), (4096, 9, 1), (513, 72, 2), (1, 1, 1)],
)
def test_memory_takes_the_fewest_blocks(depth: int, width: int, blocks: int) -> None:
    """BFP 7: a weight word of 512 bits is 8 memories side by side, 512 deep."""
    assert memory_blocks(depth, width) == blocks


def test_memories_of_an_accelerator() -> None:
    """13 banks of 4096 words of 16 bits; 8192 weight words of 256 bits, and 2048 biases of 18."""
    parts = estimate_resources(load_accelerator(DENSE).config).parts
    assert parts["scratchpad"].bram36 == 13 * 2
    assert parts["weights"].bram36 == 58 + 1


@settings(deadline=None, max_examples=drawn(60))
@given(
    st.integers(1, 64),
    st.sampled_from([2, 4, 8, 16, 32]),
    st.sampled_from([1, 2]),
    st.sampled_from(["dsp", "dsp_packed"]),
)
def test_more_columns_never_cost_less(columns: int, rows: int, lanes: int, multiplier: str) -> None:
    config = KernelConfig(columns=columns, rows=rows, lanes=lanes, multiplier=multiplier)  # type: ignore[arg-type]
    small = estimate_resources(config).total
    large = estimate_resources(replace(config, columns=columns + 1)).total
    assert large.dsp > small.dsp
    assert large.lut > small.lut
    assert large.bram36 >= small.bram36


def test_every_package_is_shipped() -> None:
    """A package that pyproject.toml forgets works in a clone and is missing from a wheel."""
    host = ROOT / "host"
    packages = {".".join(path.parent.relative_to(host).parts) for path in host.rglob("__init__.py")}
    text = (ROOT / "pyproject.toml").read_text()
    assert [name for name in sorted(packages) if f'"{name}"' not in text] == []
