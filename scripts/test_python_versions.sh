#!/usr/bin/env bash
# The package as a user installs it, on every supported Python that this machine has: wheel, `bfpga --version`, the
# quickstart's evaluation on the C simulation, the tutorial's lines of Python, tests of what differs between versions.
# Usage: scripts/test_python_versions.sh [--only VERSION]... [--limit SECONDS]
#   --only VERSION    such as 3.12; default: all that are supported
#   --limit SECONDS   begin no version after that time (default 1800); those left are named
# A version that is not installed is named and does not fail; one that fails ends with exit code 1, after the others.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh

test_tools="pytest>=9 hypothesis>=6.100"
tests="tests/cli/test_inputs_stay.py tests/accelerator/test_yaml_reader.py
    tests/compiler/test_recipes.py tests/contract tests/test_runtime.py"
chosen=""
limit=1800
# Seconds; for what nobody thought of.
step_limit=300

usage() {
    sed -n '2,7s/^# \{0,1\}//p' "$0"
}

# What is in the repository or would be, without what earlier builds left.
copy_source() {
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d "" file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | xargs -0 cp --parents -t "$1"
}

# The lines under "From Python" of the tutorial, without those that need a virtual board.
tutorial_lines() {
    sed -n '/^## From Python$/,/^```$/p' docs/tutorials/own-network.md | sed '1,/^```python$/d; /^```$/d' | grep -v '"virtual"'
}

# Everything for one interpreter, in a copy of the source and an environment of its own; the last line is the summary.
try_version() (
    set -e
    cd "$work/source"
    "$1" -m venv "$work/environment"
    PATH=$work/environment/bin:$PATH
    rm -rf build "$work/wheel"
    timeout "$step_limit" python -m pip wheel --quiet --disable-pip-version-check --no-deps -w "$work/wheel" .
    # shellcheck disable=SC2086
    timeout "$step_limit" python -m pip install --quiet --disable-pip-version-check "$work"/wheel/*.whl $test_tools
    bfpga --version
    timeout "$step_limit" bfpga run examples/models/lenet_mnist.onnx --accelerator pynq_z2_dense \
        --data examples/models/mnist_test.npz --calibration examples/models/mnist_calibration.npz \
        --device csim --compare | tee "$work/quickstart"
    tail -n 1 "$work/quickstart" | grep -q '^bit-exact: '
    tutorial_lines >"$work/tutorial.py"
    [ "$(grep -c bit_exact "$work/tutorial.py")" -eq 1 ]
    timeout "$step_limit" python "$work/tutorial.py" | tee "$work/tutorial"
    [ "$(tail -n 1 "$work/tutorial")" = True ]
    # shellcheck disable=SC2086
    timeout "$step_limit" python -m pytest -p no:cacheprovider $tests
)

while [ $# -gt 0 ]; do
    case "$1" in
    --only)
        [ $# -gt 1 ] && [[ " $supported_pythons " == *" $2 "* ]] || fail "--only takes one of: $supported_pythons"
        chosen="$chosen $2"
        shift
        ;;
    --limit)
        [ $# -gt 1 ] && [[ "$2" =~ ^[0-9]+$ ]] || fail "--limit takes seconds"
        limit=$2
        shift
        ;;
    --help | -h)
        usage
        exit
        ;;
    *) fail "unknown argument $1; see $0 --help" ;;
    esac
    shift
done

command -v g++ >/dev/null || fail "g++ is needed for the C simulation (Debian, Ubuntu: sudo apt install g++)."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
copy_source "$work/source"
failed=0
ran=0
for version in ${chosen:-$supported_pythons}; do
    interpreter=$(installed_python "$version")
    if [ -z "$interpreter" ]; then
        echo "Python $version: not run, it is not installed"
        continue
    fi
    if [ "$SECONDS" -ge "$limit" ]; then
        echo "Python $version: not run, the limit of $limit s is over"
        continue
    fi
    begun=$SECONDS
    rm -rf "$work/environment"
    ran=$((ran + 1))
    # Not as a condition: `set -e` would be off inside.
    set +e
    try_version "$interpreter" >"$work/log" 2>&1
    status=$?
    set -e
    if [ "$status" -eq 0 ]; then
        echo "$("$interpreter" --version): wheel, version, quickstart, interface, $(tail -n 1 "$work/log"), $((SECONDS - begun)) s in all"
    else
        tail -n 40 "$work/log" >&2
        echo "$("$interpreter" --version): FAILED after $((SECONDS - begun)) s"
        failed=1
    fi
done
[ "$ran" -gt 0 ] || fail "none of these is installed: Python ${chosen:-$supported_pythons}"
exit "$failed"
