#!/usr/bin/env bash
# Install everything and run all checks: formatting, types, tests.
#
#   bash launch/test.sh                  all of it
#   bash launch/test.sh -k reward        only these tests (pytest's arguments)
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

make_environment local,retrieval,data,dev
cd "$ROOT"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false

if [ "$#" -eq 0 ]; then
    ruff check .
    ruff format --check .
    mypy
fi
exec pytest -n 2 "$@"
