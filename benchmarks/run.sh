#!/usr/bin/env bash
# All benchmarks, one after the other, on one thread: bash benchmarks/run.sh
# Needs 8 GB of memory and, for the export, 16 GB in the temporary folder.
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
echo
echo "Client of the agent loop"
"$python" agent_loop.py
echo
echo "Forward KL beside the policy loss"
"$python" forward_kl.py
echo
echo "Export of a checkpoint"
"$python" export.py
