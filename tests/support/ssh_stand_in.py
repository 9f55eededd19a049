"""A board behind ssh for tests: a program `ssh` that runs the remote command in a local directory, with real tools.

The directory `board` of a test's folder is the board: `bin` comes first in its search path, `profile.d` holds its login
profiles, `home` is where deployments go.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Takes the options a deployment gives, notes the call, and behaves as the file `connection` says.
SSH = r"""#!/bin/bash
board={board}
printf '%s\0' "$@" >>"$board/calls"; printf '\036' >>"$board/calls"
host= control=
while [ $# -gt 0 ]; do
    case "$1" in
        -o|-p|-i|-l) shift 2;;
        -O) control=1; shift 2;;
        -M) control=1; shift;;
        -f|-N|-tt) shift;;
        --) host=$2; shift 2; break;;
        *) echo "stand-in: unknown option $1" >&2; exit 255;;
    esac
done
if [ -f "$board/connection" ]; then cat "$board/connection" >&2; exit 255; fi
[ -z "$control" ] || exit 0
run() {{ env -i PATH="$board/bin:/usr/bin:/bin" HOME="$board/home" bash -c "$1"; }}
if [ -f "$board/hold" ] && [[ "$1" == *sha256sum* ]]; then touch "$board/held"; exec sleep 60; fi
if [ -f "$board/cut_after" ] && [[ "$1" == *sha256sum* ]]; then
    head -c "$(cat "$board/cut_after")" | run "$1"
    echo "client_loop: send disconnect: Broken pipe" >&2
    exit 255
fi
run "$1"
"""
SUDO = """#!/bin/bash
printf '%s\n' "$*" >>{board}/sudo_calls
while [ $# -gt 0 ]; do case "$1" in -n) quiet=1; shift;; -E) shift;; *) break;; esac; done
if [ -f {board}/sudo_password ] && [ -n "$quiet" ]; then echo "sudo: a password is required" >&2; exit 1; fi
exec "$@"
"""
#: The Python of a PYNQ image: facts and the self-test's answer are those of files where these exist.
PYTHON = """#!/bin/bash
set -o pipefail
if [ "$1" = - ]; then {python} "$@" | {python} -c {change} {board}/facts; exit; fi
if [ "$1" = -u ] && [ -f {board}/self_test ]; then
    echo "$@" >{board}/self_test_call
    cat {board}/self_test
    [ ! -f {board}/report ] || cp {board}/report "${{@: -1}}"
    exit "$(cat {board}/status)"
fi
exec {python} "$@"
"""
CHANGE = """
import ast, json, sys
print(json.dumps(json.loads(sys.stdin.read()) | ast.literal_eval(open(sys.argv[1]).read())))
"""


@dataclass
class StandIn:
    """The board and what went to it."""

    path: Path

    @property
    def directory(self) -> str:
        """Where deployments go."""
        return str(self.path / "home" / "bfpga")

    @property
    def profiles(self) -> str:
        return str(self.path / "profile.d")

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of every call of ssh."""
        records = (self.path / "calls").read_text().split("\x1e")
        return [record.split("\0")[:-1] for record in records if record]

    @property
    def releases(self) -> list[Path]:
        return sorted(Path(self.directory, "releases").iterdir())

    @property
    def current(self) -> Path:
        return Path(self.directory, "current").resolve()

    def refuse(self, text: str) -> None:
        """From now on ssh ends with this message."""
        (self.path / "connection").write_text(text + "\n")

    def cut(self, size: int) -> None:
        """The connection is lost after ``size`` bytes of the copy."""
        (self.path / "cut_after").write_text(str(size))

    def hold(self) -> Path:
        """The copy does not go on; the file that is returned appears when it has come so far."""
        (self.path / "hold").touch()
        return self.path / "held"

    def mend(self) -> None:
        """The connection works again and nothing is in the way of the board's own tools."""
        for name in ("connection", "cut_after", "sudo_password", "bin/tar"):
            (self.path / name).unlink(missing_ok=True)

    def tool(self, name: str, text: str) -> None:
        """A program of the board."""
        path = self.path / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def profile(self, name: str, text: str) -> None:
        """What the board's logins load."""
        (self.path / "profile.d" / name).write_text(text)

    def pretend(self, **facts: object) -> None:
        """The board's Python answers the probe with these facts instead of its own."""
        (self.path / "facts").write_text(repr(facts))

    def answer_self_test(self, text: str, report: str | None, status: int) -> None:
        """The self-test prints a text, writes a report and ends, whatever the bundle holds."""
        (self.path / "self_test").write_text(f"{text}\n")
        (self.path / "status").write_text(str(status))
        (self.path / "report").unlink(missing_ok=True)
        if report is not None:
            (self.path / "report").write_text(report)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A PYNQ-Z2 on the search path of this process."""
    board = folder / "board"
    for name in ("bin", "profile.d", "home/jupyter_notebooks", "client"):
        (board / name).mkdir(parents=True)
    result = StandIn(board)
    result.tool("python3", PYTHON.format(board=board, python=sys.executable, change=shlex.quote(CHANGE)))
    result.pretend(numpy="1.26.4", pynq="3.0.1")
    result.tool("sudo", SUDO.format(board=board))
    result.profile("boardname.sh", "export BOARD=Pynq-Z2\necho a profile that prints\n")
    client = board / "client" / "ssh"
    client.write_text(SSH.format(board=board))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
    return result
