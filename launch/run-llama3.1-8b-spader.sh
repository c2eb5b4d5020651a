#!/usr/bin/env bash
# Llama-3.1-8B-Instruct with SPADER: the authors' settings. Variables as in run-qwen3-8b-spader.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

: "${NAME:=llama3.1-8b-spader}" "${MODEL_FILE:=llama3.1-8B-Instruct}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Llama-3.1-8B-Instruct}"
: "${SPADER_CONFIG:=$ROOT/examples/qampari/llama3.1.yaml}"
: "${TP:=2}"

prepare
launch "$@"
