#!/usr/bin/env bash
# All checks: formatting, lint, types, tests. Arguments go to pytest, e.g. `scripts/test.sh -k output_stage`. `--all` adds
# what proves the same again: other integers, more random cases, headers alone; before a release, when a header changes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh

prepare_environment dev
# Only the ap_int headers inside the package are used, so none of its dependencies.
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("hls4ml") is None)' ||
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt hls4ml

ruff check .
mypy
"$python" scripts/format_cpp.py --check
# Byte code is kept, and outside of the tree, whatever the environment says: tests start Python hundreds of times.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-${BFPGA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bfpga}/bytecode}"
# Each process has tests of its own rooms until one of them is done, so few kernels are compiled by both.
"$python" -m pytest -n 2 --dist worksteal "$@"
