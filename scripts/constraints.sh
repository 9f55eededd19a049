#!/usr/bin/env bash
# Renews constraints.txt: the newest releases that pyproject.toml allows. Needs uv (`pip install uv`).
set -euo pipefail
cd "$(dirname "$0")/.."
# Releases of PYNQ before 4 depend on a URL, which uv does not take; they would be chosen for the newest onnx.
made=$(uv pip compile pyproject.toml --extra dev --extra csim --universal --python-version 3.10 --upgrade --quiet \
    --no-header --no-annotate --constraint <(echo "pynq>=4; python_version < '3.13'"))
cat >constraints.txt <<END
# The exact releases with which everything here was tested, for Python 3.10 to 3.13: scripts/environment.sh installs them.
# Renew them with \`scripts/constraints.sh\`, then run \`scripts/test.sh\`.
$made
END
