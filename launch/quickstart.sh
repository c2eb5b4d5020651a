#!/usr/bin/env bash
# Train a small search agent from nothing and show what it learned (about 10 minutes on 2 cores).
#
#   bash launch/quickstart.sh                  the run of the README
#   bash launch/quickstart.sh run.seed=1       any key of examples/quickstart/config.yaml
#
# Interrupted? The same command goes on where it stopped.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

make_environment local,retrieval
cd "$ROOT"
exec spader-slime train --config examples/quickstart/config.yaml "$@"
