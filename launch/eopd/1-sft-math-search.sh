#!/usr/bin/env bash
# Stage 1 of examples/eopd_search: Qwen3-8B-Base learns mathematics and the search format.
#
#   SLIME_DIR=~/slime MODELS_DIR=~/models DATA_DIR=~/data bash launch/eopd/1-sft-math-search.sh
#   DRY_RUN=1 ...            print the commands only
#   SFT_ROLLOUT=slime ...    slime's own rollout function (it learns observations inside turns too)
#   ... --lr 2e-5            further arguments go to slime, and win
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/sft.sh"

: "${NAME:=eopd-1-sft-math-search}" "${MODEL_FILE:=qwen3-8B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B-Base}"
: "${TRAIN_DATA:=$DATA_DIR/eopd/math-search.parquet}"
: "${TP:=2}"

prepare_sft
launch "$@"
