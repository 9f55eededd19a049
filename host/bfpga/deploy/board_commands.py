"""The shell commands of a deployment on a board, of what every PYNQ image has: bash, tar, coreutils, util-linux."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

#: What PYNQ's own login shells load: the Python environment with pynq, XRT's paths, the name of the board.
PROFILES = ("pynq_venv.sh", "xrt_setup.sh", "boardname.sh")
PROFILE_DIRECTORY = "/etc/profile.d"
#: Exit codes of the installation.
UNPACK_FAILED, HASH_DIFFERS, BUSY, LINK_TAKEN = 3, 4, 5, 6
#: What `timeout` ends with when it had to stop its command.
TIMED_OUT = 124

#: $1: directory; $2: name of the new version. The archive comes on standard input. What an interrupted copy left is
#: removed; the link `current` moves in one step, after the files are complete, right and on the card.
_INSTALL = f"""
set -u
umask 022
mkdir -p "$1/releases" "$1/reports" || exit {UNPACK_FAILED}
cd "$1" || exit {UNPACK_FAILED}
exec 9>.lock
flock -n 9 || exit {BUSY}
rm -rf releases/.incoming-*
incoming=$(mktemp -d releases/.incoming-XXXXXX) || exit {UNPACK_FAILED}
trap 'rm -rf "$incoming"' EXIT
trap 'exit {UNPACK_FAILED}' HUP INT TERM
tar -xzf - -C "$incoming" || exit {UNPACK_FAILED}
chmod 755 "$incoming"
(cd "$incoming" && sha256sum --check --strict --quiet SHA256SUMS) || exit {HASH_DIFFERS}
sync
mv -T "$incoming" "releases/$2" || exit {UNPACK_FAILED}
if [ -e current ] && [ ! -L current ]; then exit {LINK_TAKEN}; fi
ln -sfn "releases/$2" .current && mv -T .current current || exit {LINK_TAKEN}
sync
"""

#: $1: directory; $2: the folder that Jupyter shows. A link `bfpga` there; whatever else has that name stays.
_LINK_NOTEBOOKS = """
[ -d "$2" ] || exit 0
if [ -L "$2/bfpga" ] || [ ! -e "$2/bfpga" ]; then ln -sfn "$1/current" "$2/bfpga" && echo "$2/bfpga"; fi
"""


def probe_command(directory: str, profiles: str = PROFILE_DIRECTORY) -> str:
    """Runs the probe that comes on standard input, with the Python that PYNQ uses."""
    return _bash(f"{_environment(profiles)}exec python3 - {shlex.quote(directory)}")


def install_command(directory: str, release: str) -> str:
    """Unpacks the archive that comes on standard input, checks it, and makes it the current version."""
    return _bash(_INSTALL, directory, release)


def link_notebooks_command(directory: str, folder: str) -> str:
    """Shows the notebooks in Jupyter; prints the link if it was made."""
    return _bash(_LINK_NOTEBOOKS, directory, folder)


def self_test_command(
    release: str,
    arguments: Sequence[str],
    seconds: float,
    *,
    root: bool,
    ask: bool,
    profiles: str = PROFILE_DIRECTORY,
) -> str:
    """Runs the self-test of a version for ``seconds`` at most; TIMED_OUT after that.

    root: through sudo, as programming the logic needs. ask: sudo may ask for its password. The environment is loaded
    below sudo, which resets the search path.
    """
    limit = ["timeout", "--foreground", "--kill-after=10", f"{seconds:g}"]
    words = shlex.join([*limit, "python3", "-u", "-m", "bfpga.board.self_test", *arguments])
    # Files of root in the version's directory would keep its owner from removing it.
    script = f"{_environment(profiles)}export PYTHONDONTWRITEBYTECODE=1; cd {shlex.quote(release)} && exec {words}"
    if not root:
        return _bash(script)
    return shlex.join(["sudo", "-E", *([] if ask else ["-n"])]) + " " + _bash(script)


def _environment(directory: str) -> str:
    """Loads the profiles that exist. Some print; that is no part of an answer."""
    parts = [f"if [ -r {path} ]; then . {path} >/dev/null 2>&1; fi; "
             for path in (shlex.quote(f"{directory}/{name}") for name in PROFILES)]  # fmt: skip
    return "".join(parts)


def _bash(script: str, *arguments: str) -> str:
    return shlex.join(["bash", "-c", script, "bfpga", *arguments] if arguments else ["bash", "-c", script])
