#!/usr/bin/env bash
# Stage 2 of examples/eopd_search: the model of stage 1 learns from tool-agent dialogues (tau-bench).
# Variables as in 1-sft-math-search.sh; REF_LOAD holds the checkpoints to start from.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/sft.sh"

: "${NAME:=eopd-2-sft-tau}" "${MODEL_FILE:=qwen3-8B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B-Base}"
: "${REF_LOAD:=$ROOT/runs/eopd-1-sft-math-search/checkpoints}"
: "${TRAIN_DATA:=$DATA_DIR/eopd/tau.parquet}"
: "${TP:=2}"
# shellcheck disable=SC2034  # ../lib/settings.sh
REF_LOAD_HINT="run 1-sft-math-search.sh, or set REF_LOAD to the checkpoints of another run"

prepare_sft
launch "$@"
