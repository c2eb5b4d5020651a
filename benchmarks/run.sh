#!/usr/bin/env bash
# All benchmarks, one after the other, on one thread: bash benchmarks/run.sh
set -euo pipefail
cd "$(dirname "$0")"
export OMP_NUM_THREADS=1
export PYTHONPATH="$PWD/..${PYTHONPATH:+:$PYTHONPATH}"
python="${PYTHON:-python}"
echo "Advantage with spreading over tokens"
"$python" advantage.py
echo
echo "Exploration reward"
"$python" reward.py
