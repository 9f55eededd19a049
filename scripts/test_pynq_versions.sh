#!/usr/bin/env bash
# The tests of the board path in one environment per PYNQ version, each with what a board has and no more.
# Usage: scripts/test_pynq_versions.sh [--keep] [--only VERSION]... [-- PYTEST ARGUMENTS]
#   --only VERSION   one of: board 3.0.1 3.1.2 4.0.0 (board: PYNQ 3.0.1 with the packages of its image, Python 3.10)
#   --keep           leave the environments in .venv-pynq/; the next run uses them again
# Overlays, programs and expected results come from the project's own environment (tests/support/board_fixtures.py).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh

stacks="board 3.0.1 3.1.2 4.0.0"
test_tools="pytest>=9 hypothesis>=6.100 jinja2>=3.1"
environments=.venv-pynq
# Seconds; every test has its own bounds, this one is for what nobody thought of.
install_limit=900
test_limit=1800

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "$0"
}

# Versions of Python that a stack may use, the best first.
versions() {
    case "$1" in
    board) echo "3.10" ;;
    *) echo "3.11 3.12" ;;
    esac
}

# What pip installs for a stack.
requirements() {
    local common="pycparser<3 numpy<2 setuptools<=80"
    case "$1" in
    board) echo "pynq==3.0.1 pynqmetadata==0.1.2 pynqutils==0.1.1 pydantic<2 numpy==1.26.4 ipython $common" ;;
    *) echo "pynq==$1 $common" ;;
    esac
}

find_interpreter() {
    local version candidate
    for version in $(versions "$1"); do
        candidate=$(installed_python "$version")
        [ -z "$candidate" ] || { echo "$candidate" && return; }
    done
}

# A finished environment carries what was asked for; anything else is made anew.
make_environment() {
    local stack=$1 interpreter=$2 folder=$environments/$1 wanted
    wanted="$interpreter $(requirements "$stack") $test_tools"
    [ "$(cat "$folder/.finished" 2>/dev/null)" = "$wanted" ] && return
    rm -rf "$folder"
    "$interpreter" -m venv "$folder"
    # PYNQ's setup copies boards' files and notebooks where these variables are set.
    # shellcheck disable=SC2046,SC2086
    env -u BOARD -u PYNQ_JUPYTER_NOTEBOOKS timeout "$install_limit" "$folder/bin/python" -m pip install --quiet \
        --disable-pip-version-check $(requirements "$stack") $test_tools
    echo "$wanted" >"$folder/.finished"
}

# Whole files of the board path, then tests of other files that are marked for boards.
run_tests() {
    local stack=$1 status=0 others
    shift
    local run=("$PWD/$environments/$stack/bin/python" -m pytest -p no:cacheprovider)
    others=$(grep -lE '^pytestmark = .*mark\.board|^@pytest\.mark\.board' $(find tests -name "test_*.py") |
        grep -vE '/test_(virtual|board)_' || true)
    timeout "$test_limit" "${run[@]}" "$@" tests/board/virtual/test_virtual_*.py tests/board/test_board_*.py || status=$?
    if [ "$status" -eq 0 ] && [ -n "$others" ]; then
        # shellcheck disable=SC2086
        timeout "$test_limit" "${run[@]}" -m board "$@" $others || status=$?
    fi
    return "$status"
}

test_stack() {
    local stack=$1 interpreter title log=$work/$1.log seconds=$SECONDS
    shift
    interpreter=$(find_interpreter "$stack")
    if [ -z "$interpreter" ]; then
        echo "$stack: skipped, none of these is installed: Python $(versions "$stack")"
        return 0
    fi
    title="$stack, $("$interpreter" --version)"
    if ! make_environment "$stack" "$interpreter" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "$title: FAILED to install"
        return 1
    fi
    if run_tests "$stack" "$@" >"$log" 2>&1; then
        echo "$title: $(grep -hE '^=*.*[0-9]+ (passed|skipped)' "$log" | tr -d '=' | paste -sd ';')"
    else
        tail -n 60 "$log" >&2
        echo "$title: FAILED after $((SECONDS - seconds)) s"
        return 1
    fi
}

keep=no
chosen=""
while [ $# -gt 0 ]; do
    case "$1" in
    --keep) keep=yes ;;
    --only)
        [ $# -gt 1 ] && [[ " $stacks " == *" $2 "* ]] || fail "--only takes one of: $stacks"
        chosen="$chosen $2"
        shift
        ;;
    --help | -h)
        usage
        exit
        ;;
    --)
        shift
        break
        ;;
    *) fail "unknown argument $1; see $0 --help" ;;
    esac
    shift
done

prepare_environment dev
work=$(mktemp -d)
cleanup() {
    rm -rf "$work"
    [ "$keep" = yes ] || rm -rf "$environments"
}
trap cleanup EXIT
"$python" tests/support/board_fixtures.py "$work/fixtures"
mkdir -p "$environments"
export BFPGA_BOARD_FIXTURES=$work/fixtures PYTHONPATH=$PWD/host:$PWD/hls

failed=0
for stack in ${chosen:-$stacks}; do
    test_stack "$stack" "$@" || failed=1
done
exit "$failed"
