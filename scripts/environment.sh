# Sourced by the other scripts: a virtual environment in .venv with the project installed; sets `python`.
# Usage: . scripts/environment.sh; prepare_environment [EXTRA]

supported_pythons="3.10 3.11 3.12 3.13 3.14"

fail() {
    echo "$1" >&2
    exit 1
}

# The interpreter of one version, such as 3.10: in the path, or installed by pyenv without being in use.
installed_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*"/bin/python$1"; do
        if "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

# PYTHON if it is set. Else for tests ($1 is dev) the lowest version that is supported: code that it reads the others read as
# well (scripts/test_python_versions.sh tries them); for everything else what the machine calls python3.
find_python() {
    local version candidate candidates=("${PYTHON:-}")
    [ "$1" = dev ] || candidates+=(python3)
    for version in $supported_pythons; do
        candidates+=("$(installed_python "$version")")
    done
    for candidate in "${candidates[@]}" python3; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

# $1: the extra. A half-made environment (interrupted, or made by another Python that is gone) is made anew.
create_environment() {
    local base
    base=$(find_python "$1")
    [ -n "$base" ] || fail "Python 3.10 or newer is needed and was not found; set PYTHON=/path/to/python3 if it lies elsewhere."
    "$base" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "Python's venv module is missing; install it first (Debian, Ubuntu: sudo apt install python3-venv)."
    echo "Creating .venv with $("$base" --version) ..."
    rm -rf .venv
    "$base" -m venv .venv
}

# $1: extra of pyproject.toml ("" for none). Installs again only when what is wanted changed.
prepare_environment() {
    local extra="${1:-}" stamp=.venv/.installed wanted
    command -v g++ >/dev/null || fail "g++ is needed for the C simulation (Debian, Ubuntu: sudo apt install g++)."
    [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 || create_environment "$extra"
    python=$PWD/.venv/bin/python
    wanted="$(cat pyproject.toml constraints.txt | cksum) $extra"
    if ! grep -qxF "$wanted" "$stamp" 2>/dev/null; then
        echo "Installing bfpga${extra:+ with the extra \"$extra\"} ..."
        "$python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
            --editable ".${extra:+[$extra]}"
        echo "$wanted" >>"$stamp"
    fi
    export PATH="$PWD/.venv/bin:$PATH"
}
