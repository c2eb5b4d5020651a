# Sourced by quickstart.sh and test.sh: a virtual environment in .venv, and what goes into it.
#
#   make_environment EXTRAS    e.g. make_environment local,retrieval
#
# PYTHON says which interpreter to use (3.10, 3.11 or 3.12); VENV where the environment goes.
# Where setup.py and the extras have not changed since the last time, nothing is installed.

set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${VENV:-$ROOT/.venv}"

say() { printf '== %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.12 python3.11 python3.10 python}; do
        if "$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' \
            2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "no Python 3.10, 3.11 or 3.12 found (${PYTHON:-python3}); set PYTHON to one"
}

make_venv() {
    [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -m pip --version >/dev/null 2>&1 && return
    local python
    python="$(find_python)"
    say "virtual environment in $VENV ($("$python" --version))"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python can't make virtual environments: install its venv package (python3-venv)"
    "$python" -m venv --clear "$VENV"
}

# Shows pip's progress in a terminal only.
pip_install() {
    local quiet=(--quiet)
    [ -t 2 ] && quiet=()
    "$VENV/bin/python" -m pip install ${quiet[@]+"${quiet[@]}"} --disable-pip-version-check \
        -c "$ROOT/launch/constraints.txt" "$@" >&2
}

# A plain install of torch brings CUDA libraries of several GB: without an NVIDIA GPU take the CPU
# build, from PyTorch's own index or from wherever pip is configured to look first.
install_torch() {
    local wanted
    wanted="$(grep '^torch==' "$ROOT/launch/constraints.txt")"
    "$VENV/bin/python" -m pip show --quiet torch 2>/dev/null && return
    if ! { command -v nvidia-smi && nvidia-smi -L; } >/dev/null 2>&1; then
        say "$wanted, CPU build"
        pip_install --no-deps --retries 1 --timeout 30 \
            --index-url https://download.pytorch.org/whl/cpu "$wanted" && return
        say "PyTorch's CPU index can't be reached: taking the default build (large)"
    fi
    pip_install "$wanted"
}

stamp_of() { cat "$ROOT/setup.py" "$ROOT/launch/constraints.txt" - <<<"$1" | cksum; }

make_environment() {
    local extras="$1" stamp="$VENV/.installed-${1//,/-}"
    make_venv
    if [ "$(cat "$stamp" 2>/dev/null)" != "$(stamp_of "$extras")" ]; then
        say "installing spader_slime[$extras] (a few minutes the first time)"
        install_torch
        pip_install -e "${ROOT}[$extras]"
        stamp_of "$extras" >"$stamp"
    fi
    export PATH="$VENV/bin:$PATH"
}
