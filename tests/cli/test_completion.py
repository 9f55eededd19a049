"""What the shell offers after a Tab, and the options that install it; messages of the modules."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from bfpga.cli import main


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What bash is offered for the last word of a command."""

    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_BFPGA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["bfpga", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    return ask


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mod",), ["models"]),
        (("run", "lenet_"), ["lenet_pruned"]),
        (("run", "lenet", "-a", "pynq_z2_de"), ["pynq_z2_dense"]),
        (("run", "lenet", "-a", "pynq_z2_dense"), ["pynq_z2_dense", "pynq_z2_dense_first_light"]),
        (("run", "lenet", "--device", "vi"), ["virtual", "virtual:rtl"]),
        (("explore", "lenet", "--board", "pynq_z1"), ["pynq_z1"]),
        (("compile", "lenet", "--recipe", "two_p"), ["two_parts"]),
        (("build", "zcu104_de"), ["zcu104_dense"]),
        (("init", "--goal", "la"), ["latency"]),
    ],
)
def test_a_tab_offers_the_names_of_the_package(
    words: tuple[str, ...], expected: list[str], offered: Callable[..., list[str]]
) -> None:
    assert sorted(set(offered(*words))) == expected


def test_the_script_for_a_shell_can_be_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    assert main(["--show-completion"]) == 0
    assert "_BFPGA_COMPLETE=complete_bash" in capsys.readouterr().out


def test_the_modules_say_what_they_do_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "digits", "-a", "tiny", "-n", "2"]
    assert main(run) == 0
    assert capsys.readouterr().err == ""
    assert main(["--log-level", "info", *run]) == 0
    assert "INFO bfpga.compiler.compiler: lower the layers" in capsys.readouterr().err
    assert main(run) == 0
    assert capsys.readouterr().err == ""
    assert not logging.getLogger("bfpga").handlers


def test_a_level_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--log-level", "loud", "boards"]) == 2
    assert "debug" in capsys.readouterr().err
