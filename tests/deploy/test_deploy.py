"""Deployment over ssh: what a board gets, what it is asked first, and that the old version survives every failure."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from small_networks import Network, compiled
from ssh_stand_in import StandIn, stand_in

from bfpga.accelerator.loader import load_accelerator
from bfpga.board.overlays import OverlayFiles, find_overlay, load_overlay
from bfpga.cli import main
from bfpga.contract.program import Program
from bfpga.deploy.bundle import Bundle, build_bundle, overlay_files
from bfpga.deploy.deployment import Deployment, Options, Outcome, same_board
from bfpga.deploy.request import read_programs
from bfpga.deploy.secure_shell import Address, SecureShell
from bfpga.errors import BfpgaError, DeviceError, ProgramError
from bfpga.formats.cache import cache_directory
from bfpga.program.file import save_program
from bfpga.vendor.manifest import FileEntry, file_hash, write_manifest
from bfpga.vendor.overlay_files import write_overlay

ROOT = Path(__file__).parents[2]
PASSED = json.dumps({"passed": True, "stages": []})


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> OverlayFiles:
    """An overlay that looks as if Vivado had built it."""
    folder = tmp_path_factory.mktemp("overlay")
    manifest = write_overlay(load_accelerator("tiny"), folder)
    (folder / "tiny-built.bit").write_bytes(bytes(range(256)) * 400)
    entry = FileEntry("tiny-built.bit", file_hash(folder / "tiny-built.bit"))
    write_manifest(replace(manifest, files={**manifest.files, "bitstream": entry}), folder / "overlay.yaml")
    return load_overlay(folder)


@pytest.fixture(scope="module")
def program(overlay: OverlayFiles, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, bytes]:
    folder = tmp_path_factory.mktemp("program")
    network = Network(6)
    network.add("Gemm", "x", network.weights(4, 6), network.weights(4), transB=1)
    made = compiled(network, folder, overlay.manifest.config)
    made = replace(made, accelerator="tiny", digest=overlay.manifest.accelerator.digest)
    save_program(made, folder / "small.bfpga")
    return made, (folder / "small.bfpga").read_bytes()


@pytest.fixture(scope="module")
def whole(overlay: OverlayFiles, program: tuple[Program, bytes]) -> Bundle:
    """With all modules of the package."""
    samples = np.random.default_rng(0).bytes(100_000)
    return build_bundle(overlay, {"small": program}, {"01_x.ipynb": b"{}", "models/x.npz": samples})


@pytest.fixture(scope="module")
def bundle(whole: Bundle) -> Bundle:
    """What is deployed over and over: the stand-in for a board imports no module of it."""
    kept = ("bfpga/__init__.py", "bfpga/errors.py", "bfpga/board/self_test.py")
    files = {path: data for path, data in whole.files.items() if not path.startswith("bfpga/") or path in kept}
    return replace(whole, files=files)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = stand_in(tmp_path, monkeypatch)
    made.answer_self_test("PASS  everything", PASSED, 0)
    return made


Deploy = Callable[..., Outcome]


@pytest.fixture
def deploy(board: StandIn, bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> Deploy:
    """Deploy the bundle to the board; keywords change options. What is said goes to standard output."""

    def run(interactive: bool = False, bundle: Bundle = bundle, **options: object) -> Outcome:
        settings = Options(
            directory=board.directory,
            profiles=board.profiles,
            notebooks=str(board.path / "home/jupyter_notebooks"),
            test_seconds=20,
        )
        with SecureShell(Address("pynq"), interactive=interactive) as shell:
            show: Callable[[str], None] = lambda text: print(text, end="")  # noqa: E731
            return Deployment(shell, bundle, replace(settings, **options), print, show).run()

    return run


# The bundle


def test_bundle_holds_package_overlay_programs_and_vectors(whole: Bundle) -> None:
    expected = {
        "bfpga/__init__.py", "bfpga/errors.py", "bfpga/board/self_test.py", "bfpga/board/load.py",
        "bfpga/devices/emulator.py", "bfpga/runtime.py", "bfpga/vendor/manifest.py",
        "overlays/tiny/overlay.yaml", "overlays/tiny/tiny-built.bit",
        "programs/small.bfpga", "programs/small.vectors.npz", "01_x.ipynb", "models/x.npz",
    }  # fmt: skip
    assert expected <= set(whole.files)


def test_bundle_holds_an_overlay_that_was_written_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board has no YAML reader and renders nothing."""
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "cache"))
    manifest = write_overlay(load_accelerator("tiny"), tmp_path / "tiny")
    names = ("overlay.yaml", manifest.handoff.name)
    expected = {f"overlays/tiny/{name}": (tmp_path / "tiny" / name).read_bytes() for name in names}
    assert overlay_files(find_overlay("tiny")) == expected


def test_bundle_leaves_out_what_a_board_cannot_import(whole: Bundle) -> None:
    package = {path for path in whole.files if path.startswith("bfpga/")}
    for module in ("accelerator/loader", "accelerator/schema", "network/compiler", "network/importer", "cli/__init__"):
        assert f"bfpga/{module}.py" not in package
    assert not any(path.startswith(("bfpga/cli", "bfpga/deploy", "bfpga/verify")) for path in package)


def test_every_module_of_the_bundle_loads_with_numpy_alone(whole: Bundle, tmp_path: Path) -> None:
    """Loaded from the bundle's files; every package beside numpy and the standard library is refused, pynq too."""
    whole.write(tmp_path)
    modules = [path[:-3].replace("/", ".") for path in whole.files if path.endswith(".py")]
    # These serve the virtual board only: five render its kernel, the other is a device of PYNQ.
    names = ("render", "source_text", "clock_counter", "row_numbers", "program_header")
    rendering = {f"bfpga.vendor.{name}" for name in names}
    virtual = rendering | {"bfpga.board.virtual.pynq_device"}
    modules = [name.removesuffix(".__init__") for name in modules if name not in virtual]
    script = (
        "import importlib, sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.split('.')[0]\n"
        "        if top not in sys.stdlib_module_names and top not in ('bfpga', 'numpy', 'vitis_hls_templates'):\n"
        "            raise ImportError(f'{name} is not on a board')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "for name in sys.argv[1:]:\n"
        "    module = importlib.import_module(name)\n"
        f"    assert module.__file__.startswith({str(tmp_path)!r}), module.__file__\n"
    )
    subprocess.run([sys.executable, "-I", "-c", script, *modules], check=True)


def test_checksums_are_those_of_sha256sum(bundle: Bundle, tmp_path: Path) -> None:
    bundle.write(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_same_content_gives_the_same_archive(bundle: Bundle) -> None:
    again = replace(bundle, files=dict(reversed(list(bundle.files.items()))))
    assert again.archive() == bundle.archive()
    assert again.digest == bundle.digest
    assert replace(bundle, files={**bundle.files, "models/x.npz": b"y"}).digest != bundle.digest


def test_program_of_another_accelerator_is_refused(overlay: OverlayFiles, program: tuple[Program, bytes]) -> None:
    other = replace(program[0], accelerator="other", digest="0" * 64)
    with pytest.raises(ProgramError, match="compiled for accelerator other"):
        build_bundle(overlay, {"small": (other, program[1])}, {})


@pytest.mark.parametrize("name", ["a\nb", "a\r", "\x1b[2J", os.fsdecode(b"caf\xe9")])
def test_program_whose_name_no_list_of_files_can_hold_is_refused(
    program: tuple[Program, bytes], tmp_path: Path, name: str
) -> None:
    path = tmp_path / f"{name}.bfpga"
    path.write_bytes(program[1])
    with pytest.raises(DeviceError, match="a file of this name cannot go to a board; rename it") as caught:
        read_programs((path,))
    assert str(caught.value).isprintable()


def test_probe_speaks_the_python_of_old_images() -> None:
    """A board whose Python is too old must be able to say so."""
    source = (ROOT / "host/bfpga/deploy/board_probe.py").read_text()
    ast.parse(source, feature_version=(3, 5))
    assert "from __future__" not in source
    assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(ast.parse(source)))


# A deployment that works


def test_deployment_copies_switches_and_tests(
    deploy: Deploy, board: StandIn, bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = deploy()
    assert outcome.passed
    assert outcome.self_test == json.loads(PASSED)
    assert board.current.name == outcome.release
    assert {str(p.relative_to(board.current)) for p in board.current.rglob("*") if p.is_file()} == {
        *bundle.files, "SHA256SUMS",
    }  # fmt: skip
    assert all((board.current / path).read_bytes() == data for path, data in bundle.files.items())
    said = capsys.readouterr().out
    assert "Pynq-Z2" in said
    assert "PASS  everything" in said


def test_self_test_runs_as_root_in_the_environment_of_pynq(deploy: Deploy, board: StandIn) -> None:
    deploy(repeat=7)
    assert "-E -n bash -c" in (board.path / "sudo_calls").read_text()
    words = (board.path / "self_test_call").read_text().split()
    assert words[words.index("--program") + 1] == "programs/small.bfpga"
    assert words[words.index("--overlay") + 1] == "overlays/tiny"
    assert words[words.index("--repeat") + 1] == "7"
    command = next(call[-1] for call in board.calls if "self_test" in call[-1])
    assert command.index("pynq_venv.sh") < command.index("xrt_setup.sh") < command.index("python3")


def test_virtual_target_needs_no_root(deploy: Deploy, board: StandIn) -> None:
    board.tool("sudo", "#!/bin/bash\nexit 1\n")
    assert deploy(target="virtual").passed


def test_no_test_copies_only(deploy: Deploy, board: StandIn) -> None:
    outcome = deploy(test=False)
    assert outcome.self_test is None
    assert not (board.path / "self_test_call").exists()
    assert board.current.name == outcome.release


def test_second_deployment_keeps_the_first_beside_it(deploy: Deploy, board: StandIn, bundle: Bundle) -> None:
    first = deploy(test=False)
    changed = replace(bundle, files={**bundle.files, "models/x.npz": b"other"})
    second = deploy(test=False, bundle=changed)
    assert first.release != second.release
    assert [path.name for path in board.releases] == sorted([first.release, second.release])
    assert (board.current / "models/x.npz").read_bytes() == b"other"


def test_notebooks_appear_in_jupyter(deploy: Deploy, board: StandIn) -> None:
    deploy(test=False)
    assert (board.path / "home/jupyter_notebooks/bfpga/01_x.ipynb").read_bytes() == b"{}"


def test_what_else_is_named_bfpga_in_jupyter_stays(deploy: Deploy, board: StandIn) -> None:
    own = board.path / "home/jupyter_notebooks/bfpga"
    own.mkdir()
    assert deploy(test=False).notebooks is None
    assert own.is_dir()
    assert not own.is_symlink()


def test_nothing_is_asked_without_a_terminal(deploy: Deploy, board: StandIn) -> None:
    deploy()
    assert all("BatchMode=yes" in call and "-tt" not in call for call in board.calls)


def test_a_terminal_logs_in_once_and_lets_sudo_ask(deploy: Deploy, board: StandIn) -> None:
    (board.path / "sudo_password").touch()
    assert deploy(interactive=True).passed
    assert not any("BatchMode=yes" in call for call in board.calls)
    sockets = {word for call in board.calls for word in call if word.startswith("ControlPath=")}
    assert len(sockets) == 1
    assert [call for call in board.calls if "-M" in call] == [board.calls[0]]
    assert "exit" in board.calls[-1]
    assert any("-tt" in call for call in board.calls)
    assert "-E bash -c" in (board.path / "sudo_calls").read_text()


def test_options_of_ssh_are_handed_on(board: StandIn, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    with SecureShell(Address("board.local", "me", 2222, key), interactive=False) as shell:
        assert shell.run("echo hello; cat", b"input").output == "hello\ninput"
    call = board.calls[0]
    assert call[call.index("-p") + 1] == "2222"
    assert call[call.index("-i") + 1] == str(key)
    assert call[call.index("-l") + 1] == "me"
    assert call[-2] == "board.local"


# What goes wrong


def failure(deploy: Deploy, **options: object) -> str:
    with pytest.raises(BfpgaError) as raised:
        deploy(**options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        ("ssh: Could not resolve hostname pynq: Name or service not known", "name is unknown"),
        ("ssh: connect to host pynq port 22: Connection timed out", "does not answer; check power"),
        ("ssh: connect to host pynq port 22: No route to host", "does not answer; check power"),
        ("ssh: connect to host pynq port 22: Connection refused", "nothing listens"),
        ("xilinx@pynq: Permission denied (publickey,password).", "ssh-copy-id xilinx@pynq"),
        ("No ED25519 host key is known for pynq\nHost key verification failed.", "log in once by hand"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "ssh-keygen -R pynq"),
        ("kex_exchange_identification: read: strange", "ssh failed: kex_exchange_identification"),
    ],
)
def test_connection_failures_are_explained(deploy: Deploy, board: StandIn, said: str, explained: str) -> None:
    board.refuse(said)
    text = failure(deploy)
    assert explained in text
    assert "xilinx@pynq" in text


def test_a_refused_login_on_a_terminal_is_explained(deploy: Deploy, board: StandIn) -> None:
    board.refuse("xilinx@pynq: Permission denied (publickey,password).")
    assert "refused the login" in failure(deploy, interactive=True)


def test_wrong_board_is_refused_before_anything_is_copied(deploy: Deploy, board: StandIn) -> None:
    board.profile("boardname.sh", "export BOARD=Pynq-Z1\n")
    assert "it is a Pynq-Z1, overlay tiny is for TUL PYNQ-Z2" in failure(deploy)
    assert not Path(board.directory).exists()


def test_board_of_unknown_name_is_a_warning(deploy: Deploy, board: StandIn) -> None:
    board.profile("boardname.sh", "export BOARD=Unknown\n")
    assert any("does not say which board" in text for text in deploy().warnings)


@pytest.mark.parametrize(
    ("image", "board", "same"),
    [
        ("Pynq-Z2", "pynq_z2", True), ("Pynq-Z1", "pynq_z2", False), ("RFSoC2x2", "rfsoc_2x2", True),
        ("Ultra96", "ultra96_v2", True), ("KV260", "kv260", True), ("AUP-ZU3", "aup_zu3", True),
        ("Z2", "pynq_z2", False),
    ],
)  # fmt: skip
def test_names_of_boards(image: str, board: str, same: bool) -> None:
    assert same_board(image, board) is same


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"python": [3, 8, 2]}, "its Python is 3.8.2, 3.10 is needed"),
        ({"pynq": None}, "pynq is not installed"),
        ({"numpy": None}, "numpy is not installed"),
        ({"numpy": "2.1.0"}, "pynq works with numpy 1 only"),
        ({"free_bytes": 1000}, "card is full"),
        ({"writable": False}, "may not write"),
        ({"root": "no"}, "needs root"),
        ({"root": "password"}, "sudo asks for a password"),
        ({"missing_tools": ["flock"]}, "lacks flock"),
    ],
)
def test_unfit_board_is_refused(deploy: Deploy, board: StandIn, facts: dict[str, object], said: str) -> None:
    board.pretend(**({"pynq": "3.0.1", "numpy": "1.26.4"} | facts))
    assert said in failure(deploy)
    assert not Path(board.directory).exists()


def test_all_reasons_are_told_at_once(deploy: Deploy, board: StandIn) -> None:
    board.pretend(pynq=None, numpy="1.26.4", free_bytes=0, root="no")
    text = failure(deploy)
    assert all(said in text for said in ("pynq is not installed", "card is full", "needs root"))


def test_new_pynq_on_an_old_board_is_a_warning(deploy: Deploy, board: StandIn) -> None:
    board.pretend(numpy="1.26.4", pynq="4.0.0")
    assert any("no longer supports Zynq-7000" in text for text in deploy(test=False).warnings)


def test_machine_without_python_is_refused(deploy: Deploy, board: StandIn) -> None:
    board.tool("python3", "#!/bin/bash\necho 'bash: python3: command not found' >&2\nexit 127\n")
    assert "python3 does not answer there" in failure(deploy)


def installed(deploy: Deploy, board: StandIn) -> Path:
    """A version that works, before something goes wrong."""
    deploy(test=False)
    return board.current


@pytest.mark.parametrize("size", [0, 20_000])
def test_interrupted_copy_leaves_the_old_version(deploy: Deploy, board: StandIn, bundle: Bundle, size: int) -> None:
    old = installed(deploy, board)
    board.cut(size)
    text = failure(deploy)
    assert "the copy was interrupted" in text
    assert "the version there before still works" in text
    assert board.current == old
    assert (old / "bfpga/errors.py").read_bytes() == bundle.files["bfpga/errors.py"]
    assert board.releases == [old]
    board.mend()
    assert deploy().passed


def test_remains_of_a_killed_copy_are_removed(deploy: Deploy, board: StandIn) -> None:
    installed(deploy, board)
    (Path(board.directory) / "releases/.incoming-killed").mkdir()
    deploy(test=False)
    assert not any(path.name.startswith(".") for path in board.releases)


def test_full_card_while_copying(deploy: Deploy, board: StandIn) -> None:
    old = installed(deploy, board)
    said = "tar: x: Cannot write: No space left on device"
    board.tool("tar", f'#!/bin/bash\nhead -c 30000 | /bin/tar "$@" 2>/dev/null\necho "{said}" >&2\nexit 2\n')
    assert "the card is full" in failure(deploy)
    assert board.current == old
    assert board.releases == [old]


def test_file_that_arrives_damaged(deploy: Deploy, board: StandIn) -> None:
    old = installed(deploy, board)
    board.tool("tar", '#!/bin/bash\n/bin/tar "$@" && echo >>"$4/bfpga/errors.py"\n')
    text = failure(deploy)
    assert "arrived damaged" in text
    assert board.current == old
    assert board.releases == [old]


def test_two_deployments_at_once(deploy: Deploy, board: StandIn) -> None:
    installed(deploy, board)
    with open(Path(board.directory) / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another deployment is running" in failure(deploy)
    assert deploy().passed


def test_a_directory_named_current_is_never_replaced(deploy: Deploy, board: StandIn) -> None:
    Path(board.directory, "current").mkdir(parents=True)
    assert "is not a link" in failure(deploy)


def test_failed_self_test_is_reported_with_its_report(deploy: Deploy, board: StandIn) -> None:
    board.answer_self_test("FAIL  clock: 50 MHz", json.dumps({"passed": False, "stages": ["clock"]}), 1)
    outcome = deploy()
    assert not outcome.passed
    assert outcome.self_test == {"passed": False, "stages": ["clock"]}


@pytest.mark.parametrize("report", [None, "", "[]", "{"])
def test_self_test_without_a_report(deploy: Deploy, board: StandIn, report: str | None) -> None:
    board.answer_self_test("Killed", report, 137)
    assert "ended with exit code 137 and without a report" in failure(deploy)


def test_self_test_that_hangs_is_stopped(deploy: Deploy, board: StandIn) -> None:
    pytest.importorskip("pynq")
    board.tool("python3", f'#!/bin/bash\n[ "$1" != -u ] || exec sleep 100\nexec {sys.executable} "$@"\n')
    assert "stopped after 0.5 s" in failure(deploy, test_seconds=0.5)


def test_connection_lost_in_the_self_test(deploy: Deploy, board: StandIn) -> None:
    pytest.importorskip("pynq")
    refuse = f"echo Connection reset by peer >{board.path}/connection"
    board.tool("python3", f'#!/bin/bash\n[ "$1" != -u ] || {{ {refuse}; exit 255; }}\nexec {sys.executable} "$@"\n')
    assert "ssh failed" in failure(deploy) or "connection was lost" in failure(deploy)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "x;y", "a/b"])
def test_strange_hosts_are_refused(host: str) -> None:
    with pytest.raises(DeviceError, match="is no host"):
        Address(host)


def test_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no such key file"):
        Address("pynq", identity=tmp_path / "none")


def test_relative_directory_is_refused() -> None:
    with pytest.raises(DeviceError, match="absolute path"):
        Options(directory="bfpga")


# The script


Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script(capfd: pytest.CaptureFixture[str]) -> Script:
    """The command in this process; the script in one of its own is interrupted below."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = main(["deploy", *arguments])
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


@pytest.fixture(scope="module")
def program_path(program: tuple[Program, bytes], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("given") / "small.bfpga"
    path.write_bytes(program[1])
    return str(path)


def test_help_shows_examples(script: Script) -> None:
    shown = script("--help").stdout
    assert "Examples:" in shown
    assert "bfpga deploy pynq --overlay pynq_z2_dense" in shown


def test_dry_run_connects_to_nothing(
    script: Script, board: StandIn, overlay: OverlayFiles, program_path: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    arguments = ["pynq", "--overlay", str(overlay.directory), "--program", program_path, "--dry-run"]
    result = script(*arguments, "--json", str(report))
    assert (result.returncode, result.stderr) == (0, "")
    assert "overlay tiny" in result.stdout
    assert "xilinx@pynq:/home/xilinx/bfpga" in result.stdout
    content = json.loads(report.read_text())
    assert content["deployed"] is False
    assert content["files"]["overlays/tiny/tiny-built.bit"] == overlay.manifest.files["bitstream"].sha256  # type: ignore[union-attr]
    assert not (board.path / "calls").exists()


def test_dry_run_shows_the_bundle_of_an_overlay_that_was_never_built(
    script: Script, board: StandIn, program_path: str
) -> None:
    result = script("pynq", "--overlay", "tiny", "--program", program_path, "--dry-run")
    assert result.returncode == 0
    assert re.search(r"^  overlays/ +2 files", result.stdout, re.MULTILINE)
    assert "would go to xilinx@pynq:/home/xilinx/bfpga/releases" in result.stdout
    assert "this deployment would be refused: overlay tiny has no bitstream" in result.stderr
    assert not (board.path / "calls").exists()


def test_overlay_that_was_never_built_is_refused(script: Script, board: StandIn) -> None:
    result = script("pynq", "--overlay", "tiny")
    assert result.returncode == 2
    assert "never built" in result.stderr
    assert "bfpga build tiny" in result.stderr
    assert "--target virtual" in result.stderr
    assert not (board.path / "calls").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-x"], "No such option"),
        (["a b", "--overlay", "tiny", "--target", "virtual"], "is no host"),
        (["pynq", "--overlay", "tinny"], "did you mean `tiny`"),
        (["pynq", "--program", "none.bfpga"], "none.bfpga"),
        (["pynq", "--target", "moon"], "is unknown"),
        (["pynq", "--directory", "here"], "absolute path"),
        (["pynq", "--identity", "none"], "no such key file"),
        (["pynq", "--json", "/nowhere/at/all.json"], "/nowhere/at"),
    ],
)
def test_wrong_use_ends_with_2_and_one_message(script: Script, arguments: list[str], said: str) -> None:
    result = script(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_failed_self_test_ends_with_1(
    script: Script, board: StandIn, overlay: OverlayFiles, program_path: str, tmp_path: Path
) -> None:
    board.answer_self_test("FAIL  clock", json.dumps({"passed": False}), 1)
    report = tmp_path / "report.json"
    arguments = ["pynq", "--overlay", str(overlay.directory), "--program", program_path, "--json", str(report)]
    result = script(*arguments, "--directory", board.directory)
    assert result.returncode == 1
    assert "FAIL  clock" in result.stdout
    assert json.loads(report.read_text())["self_test"] == {"passed": False}


def test_from_a_network_to_a_passed_self_test(script: Script, board: StandIn, tmp_path: Path) -> None:
    """Nothing is pretended beyond the connection: LeNet is compiled, copied, and tested on a virtual board there."""
    pytest.importorskip("pynq")
    (board.path / "self_test").unlink()
    # A command line names no profiles of a stand-in; the cache saves compiling the kernel again.
    settings = {name: os.environ[name] for name in ("CXX", "BFPGA_THREADS") if name in os.environ}
    settings |= {"BFPGA_CACHE": str(cache_directory()), "BFPGA_CXXFLAGS": "-O1"}  # the kernel of tests/board
    python = board.path / "bin" / "python3"
    exported = "".join(f"export {name}='{value}'\n" for name, value in settings.items())
    python.write_text(python.read_text().replace("\n", f"\n{exported}", 1))
    report = tmp_path / "report.json"
    arguments = ["pynq", "--target", "virtual", "--repeat", "3", "--directory", board.directory]
    result = script(*arguments, "--json", str(report))
    assert result.returncode == 0, result.stdout + result.stderr
    content = json.loads(report.read_text())
    assert content["passed"] is True
    assert {stage["status"] for stage in content["self_test"]["stages"]} == {"PASS"}
    assert "4 test vectors" in result.stdout
    assert (board.current / "programs/lenet_mnist.bfpga").is_file()
    assert (board.current / "01_first_inference.ipynb").is_file()


def test_control_c_while_copying(board: StandIn, overlay: OverlayFiles, program_path: str) -> None:
    held = board.hold()
    arguments = ["pynq", "--overlay", str(overlay.directory), "--program", program_path, "--directory", board.directory]
    command = [sys.executable, str(ROOT / "scripts/deploy.py"), *arguments]
    # A shell starts what runs in its background with the interrupt switched off, and that is inherited.
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listening
    ) as process:
        limit = monotonic() + 30
        while not held.exists() and monotonic() < limit:
            sleep(0.02)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    assert process.returncode == 130, errors
    assert errors.strip().endswith("the version on the board is as it was, or the new one is complete")
    assert "Traceback" not in errors


def test_overlay_without_a_program_needs_a_ready_accelerator(
    script: Script, board: StandIn, overlay: OverlayFiles, tmp_path: Path
) -> None:
    """LeNet is compiled only for an accelerator whose description is at hand."""
    for path in overlay.directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    accelerator = replace(overlay.manifest.accelerator, name="mine")
    write_manifest(replace(overlay.manifest, accelerator=accelerator), tmp_path / "overlay.yaml")
    result = script("pynq", "--overlay", str(tmp_path))
    assert result.returncode == 2
    assert "give it with --program" in result.stderr
