#!/usr/bin/env bash
# Qwen3-8B with SPADER on slime: the authors' settings, 8 GPUs unless said otherwise.
#
#   SLIME_DIR=~/slime MODELS_DIR=~/models DATA_DIR=~/data bash launch/run-qwen3-8b-spader.sh
#   DRY_RUN=1 ...        print the commands only
#   MODE=async ...       also: colocate (default), disaggregate
#   ... --lr 5e-6        further arguments go to slime, and win
#
# Several nodes, and all variables: docs/cluster.md.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

: "${NAME:=qwen3-8b-spader}" "${MODEL_FILE:=qwen3-8B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B}"
: "${SPADER_CONFIG:=$ROOT/examples/qampari/qwen3.yaml}"
: "${TP:=2}"

prepare
launch "$@"
