#!/usr/bin/env bash
# Qwen3-8B with GRPO on the outcome reward: the baseline of run-qwen3-8b-spader.sh, same variables.
# Agent, data, loss and optimizer are the same; only the YAML file differs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

: "${NAME:=qwen3-8b-grpo}" "${MODEL_FILE:=qwen3-8B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B}"
: "${SPADER_CONFIG:=$ROOT/examples/qampari/qwen3-grpo.yaml}"
: "${TP:=2}"

prepare
launch "$@"
