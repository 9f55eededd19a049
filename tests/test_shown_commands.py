"""Every command that the documents show is executed (issue 18: site); those of the guides are in test_site.py.

A page's commands run in their order, in a folder with the examples and small files of the names that the pages use.
What needs a board, a vendor's tool, a farm, a new kernel or minutes has a stand-in here, or the test that does it.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from shown_commands import GUIDES, commands, write_listings

from bfpga.cli import main

ROOT = Path(__file__).parents[1]
#: What test_site.py executes.
IN_GUIDES = {shlex.join(asked) for path in GUIDES for asked in commands(path.read_text(), {"sh"})}
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if commands(path.read_text())]
SAMPLES = 24
#: Nothing is built: a machine with the vendor's tools would work for an hour.
DRY = "--dry-run"
LENET = "examples/models/lenet_mnist.onnx"
MNIST = "-d examples/models/mnist_test.npz -c examples/models/mnist_calibration.npz"
DIGITS = "-d samples.npz -c calibration.npz"

#: Smaller ones of the same command, with the reason.
STAND_INS = {
    # A board: its files are listed, for a virtual one, since no bitstream was built.
    **{f"deploy 192.168.2.99 --overlay pynq_z2_dense{more}":
       f"deploy 192.168.2.99 --overlay pynq_z2_dense{more} --target virtual {DRY}"
       for more in ("_first_light", " --program lenet.bfpga", " --program dscnn_kws.bfpga")},
    # The vendor's tools; nothing is there to be done again; no farm.
    "build pynq_z2_dense --from implementation --jobs 2": f"build pynq_z2_dense --from render --jobs 2 {DRY}",
    "build pynq_z2_dense zcu104_dense --scheduler tcp://farm:8786": f"build tiny {DRY}",
    "build pynq_z2_dense zcu104_dense kv260_dense --scheduler tcp://farm:8786": f"build tiny {DRY}",
    f"run {LENET} -a pynq_z2_dense {MNIST} --samples 20 --device virtual --compare":
        f"run {LENET} -a pynq_z2_dense {MNIST} --samples 2 --device virtual --compare",
    # Five minutes.
    f"explore {LENET} --board pynq_z2 -d examples/models/mnist_test.npz --time-limit 300":
        "explore net.onnx --board ultra96_v2 -d samples.npz --trials 2 -o found",
    # Seconds that other networks, accelerators or fewer samples do not take.
    f"report {LENET} -a pynq_z2_dense {MNIST} -o report.html": f"report net.onnx -a tiny {DIGITS} -o report.html",
    f"compare {LENET} -a pynq_z2_dense -a pynq_z2_bfp16 -a zcu104_dense {MNIST} -o compare.html":
        f"compare net.onnx -a tiny -a pynq_z2_bfp16 {DIGITS} -o compare.html",
    "evaluate net.onnx -a zcu104_dense -d samples.npz --workers 8": "evaluate net.onnx -a zcu104_dense -d samples.npz",
    "advise lenet --board pynq_z2": "advise net.onnx --board kv260",
    "run examples/models/lenet_mnist_pruned90.onnx -a pynq_z2_zero_skip -d examples/models/mnist_test.npz -n 4 "
    "--device csim --compare": "run net.onnx -a pynq_z2_zero_skip -d samples.npz -n 4",
    "build pynq_z2_dense --until hls": f"build tiny --until hls {DRY}",
    "build zcu104_dense --accept Array": f"build tiny --accept Array {DRY}",
    "synthesize ./small.yaml": "synthesize tiny",
}  # fmt: skip
#: Done by a test of its own, since a second time would cost seconds: workers, boards, netlists.
ELSEWHERE = {
    "build tiny --hls own": "vendor/test_build_script.py::test_build_with_own_hls_asks_for_vivado_alone",
    "init other --model net.onnx -d samples.npz --board pynq_z2 --goal latency":
        "cli/test_init.py::test_the_accelerator_is_the_best_for_the_goal",
    "models --train keywords": "cli/test_models.py::test_a_trained_network_is_kept_with_what_it_learned_from_and_runs",
    "evaluate keywords -a pynq_z2_dense":
        "cli/test_models.py::test_a_trained_network_is_kept_with_what_it_learned_from_and_runs",
    "verify random --arrays 40 --cases 4000 --workers 4":
        "scale/test_workers.py::test_a_verification_has_the_report_of_one_process",
    "evaluate net.onnx -a zcu104_dense -d samples.npz --scheduler tls://farm:8786":
        "scale/test_workers.py::test_a_scheduler_with_certificates_is_reached_by_those_of_the_configuration",
    "run net.onnx -a zcu104_dense -d samples.npz --device remote:127.0.0.1:7967":
        "board/virtual/test_virtual_compiled.py::test_networks_run_on_a_board_in_another_process",
    "run net.onnx -a pynq_z2_dense -d samples.npz --device remote:10.0.0.5,remote:10.0.0.6":
        "scale/test_boards.py::test_faults_cost_no_sample",
    "run net.onnx -a pynq_z2_dense -d samples.npz --device virtual --boards 4":
        "scale/test_boards.py::test_run_reports_each_board",
    "prune net.onnx --sparsity 0.8 -d samples.npz -o pruned.onnx": "cli/test_prune.py::test_prune_tells_every_layer",
    f"prune {LENET} --sparsity 0.9 -d examples/models/mnist_test.npz --epochs 40 -o lenet_pruned.onnx":
        "cli/test_prune.py::test_prune_tells_every_layer",
    "prune resnet8_cifar10.onnx --sparsity 0.8 -d cifar10_train.npz --held-out cifar10_test.npz --epochs 60 "
    "--structure pynq_z2_zero_skip_wide --time-limit 4080 -o resnet8_pruned80.onnx":
        "cli/test_prune.py::test_prune_judges_on_a_file_of_its_own",
    "prune resnet8_cifar10.onnx --sparsity 0.8 -d cifar10_train_calib.npz --held-out cifar10_test.npz --epochs 40 "
    "--structure pynq_z2_zero_skip_wide": "cli/test_prune.py::test_prune_balances_the_groups_of_a_skip_array",
    "advise examples/models/lenet_mnist_pruned90.onnx --board pynq_z2 -d examples/models/mnist_test.npz":
        "test_documents.py::test_a_page_shows_what_a_command_prints",
    "evaluate keywords -a pynq_z2_shift --formats power_of_two --accuracy-drop 1 --save-recipe keywords.yaml":
        "precision/test_search.py::test_commands_print_the_table_and_write_the_recipe",
    "compile keywords -a pynq_z2_shift -r keywords.yaml -o keywords.bfpga":
        "precision/test_search.py::test_commands_print_the_table_and_write_the_recipe",
    "research blocks lenet -a pynq_z2_dense": "precision/test_blocks.py::test_the_page_shows_what_the_command_prints",
    "synthesize tiny --loop Array": "cli/test_synthesize.py::test_loops_limits_and_resources_are_printed",
    "synthesize tiny --no-count": "cli/test_synthesize.py::test_loops_limits_and_resources_are_printed",
    "synthesize tiny --prove": "synthesis/test_prove.py::test_a_graph_does_what_its_code_does",
    "synthesize tiny --prove --loop Array": (
        "synthesis/test_prove.py::test_a_netlist_of_a_process_repeats_iterations_of_the_c_simulation"
    ),
    # A minute or two of making Verilog.
    "rtl tiny --output build/tiny_rtl":
        "rtl/test_ips.py::test_an_ip_writes_the_words_of_all_starts_however_its_streams_wait",
    **dict.fromkeys(
        ("run lenet -a tiny --samples 1 --device rtl --compare", "verify tiny --against rtl --cases 40",
         "run lenet -a tiny --samples 1 --device rtl:seed=3 --compare"),
        "rtl/test_rtl_simulation.py::test_random_networks_on_a_whole_kernel_are_as_on_the_emulator",
    ),
    "run lenet -a tiny --samples 2 --device virtual:rtl --compare":
        "board/virtual/test_virtual_rtl.py::test_a_network_runs_on_the_verilog_and_again_after_an_interrupted_run",
    "synthesize --check": "synthesis/test_gate.py::test_a_ready_accelerator_passes_the_gate",
}  # fmt: skip


def stand_in(asked: list[str]) -> list[str]:
    """What is executed for a command of a page."""
    words = shlex.split(STAND_INS.get(shlex.join(asked), shlex.join(asked)))
    return [*words, DRY] if words[0] == "build" and DRY not in words else words


def executed(path: Path) -> list[list[str]]:
    """Commands of a page that nothing else executes; those that write files run again, others may need them."""
    asked = commands(path.read_text(), {"console"} if path in GUIDES else None)
    left = [words for words in asked if shlex.join(words) not in ELSEWHERE]
    return [words for words in left if shlex.join(words) not in IN_GUIDES or "-o" in words]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a page before has compiled."""
    target = tmp_path_factory.mktemp("compiled") / "lenet.bfpga"
    words = ["-a", "pynq_z2_dense", "-c", str(ROOT / "examples" / "models" / "mnist_calibration.npz")]
    assert main(["compile", str(ROOT / LENET), *words, "-o", str(target)]) == 0
    return target


@pytest.fixture
def desk(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples and what readers are taken to have: a network, samples, accelerators, board files."""
    models = ROOT / "examples" / "models"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "DIR").mkdir()
    shutil.copy(models / "mlp_digits.onnx", tmp_path / "net.onnx")
    with np.load(models / "digits_test.npz") as samples:
        few = {name: samples[name][:SAMPLES] if samples[name].ndim else samples[name] for name in samples.files}
    for name in ("samples.npz", "calibration.npz"):
        np.savez(tmp_path / name, **few)
    np.savez(tmp_path / "maps.npz", x=np.random.default_rng(1).random((2, 12, 12, 4), np.float32).round())
    own = (ROOT / "configs" / "accelerators" / "tiny.yaml").read_text().replace("name: tiny", "name: my_accelerator")
    (tmp_path / "my_accelerator.yaml").write_text(own)
    (tmp_path / "my_cores.yaml").write_text(own.replace("name: my_accelerator", "name: my_cores\ncores: 2"))
    write_listings((ROOT / "docs" / "tutorials" / "own-accelerator.md").read_text(), tmp_path)
    shutil.copy(program, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", [path for path in PAGES if executed(path)], ids=lambda path: path.stem)
def test_commands_of_a_page_run_in_their_order(path: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requirement: every command shown in the docs is executed by a test, or a stand-in that the tables name."""
    write_listings(path.read_text(), desk)
    for asked in executed(path):
        assert main(stand_in(asked)) == 0, f"bfpga {shlex.join(asked)}: {capsys.readouterr().err}"


def test_the_tables_name_commands_that_are_shown_and_tests_that_exist() -> None:
    """A stand-in that no page needs any more goes; a test that is named is there."""
    shown = {shlex.join(asked) for path in PAGES for asked in commands(path.read_text())}
    assert (STAND_INS.keys() | ELSEWHERE.keys()) <= shown
    for place in ELSEWHERE.values():
        file, name = place.split("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text()


def test_a_command_that_fails_is_seen(desk: Path) -> None:
    assert main(stand_in(["build", "no_such_accelerator"])) != 0
