#!/usr/bin/env bash
# Install everything and run all checks: formatting, types, tests.
#
#   bash launch/test.sh                  all of it
#   bash launch/test.sh -k reward        only these tests (pytest's arguments)
#
# Inside real slime, given a checkout of v0.3.1 or main (no GPU, SGLang or Ray cluster needed):
#
#   bash launch/test.sh --slime DIR      the tests that need slime; renews tests/fixtures first
#   bash launch/test.sh --slime DIR --megatron DIR
#                                        with slime's flag parser, too, which needs Megatron-LM at
#                                        the commit that slime's Dockerfile names
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# checkout OPTION DIR INSIDE: the absolute path of DIR, which has to hold the folder INSIDE.
checkout() {
    [ -n "$2" ] && [ -d "$2/$3" ] || fail "$1 '$2': not a checkout, there is no $3/ in it"
    (cd "$2" && pwd)
}

inside_slime=""
while [ "$#" -gt 0 ]; do
    case "$1" in
        --slime) inside_slime=1 SLIME_SRC="$(checkout "$1" "${2:-}" slime/rollout)" ;;
        --megatron) MEGATRON_SRC="$(checkout "$1" "${2:-}" megatron/training)" ;;
        *) break ;;
    esac
    export SLIME_SRC MEGATRON_SRC
    shift 2
done

tests_in_slime() {
    local file chosen=()
    while IFS= read -r file; do
        chosen+=("$file")
    done < <(grep -rl --include 'test_*.py' 'from contracts.driving import' tests)
    say "slime in $SLIME_SRC: what crosses each seam"
    python tests/contracts/record_seams.py "$SLIME_SRC"
    git diff --stat -- tests/fixtures >&2 || true # no git, no comparison
    exec pytest -n 2 --dist loadfile "${chosen[@]}" "$@"
}

make_environment "local,retrieval,data,dev${inside_slime:+,slime}"
cd "$ROOT"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false

[ -z "$inside_slime" ] || tests_in_slime "$@"
if [ "$#" -eq 0 ]; then
    ruff check .
    ruff format --check .
    mypy
fi
exec pytest -n 2 "$@"
