#!/usr/bin/env bash
# Qwen3-30B-A3B, a mixture of experts, with SPADER. Variables as in run-qwen3-8b-spader.sh, and:
#
#   ROUTING_REPLAY=1     train with the experts that the engine chose (slime's own SGLang build)
#   CPU_OFFLOAD=0        optimizer states stay on the GPUs (default 1: one node of 80 GB GPUs)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

: "${NAME:=qwen3-30b-a3b-spader}" "${MODEL_FILE:=qwen3-30B-A3B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-30B-A3B}"
: "${SPADER_CONFIG:=$ROOT/examples/qampari/qwen3.yaml}"
: "${TP:=4}" "${GPUS_PER_ENGINE:=4}" "${MAX_TOKENS_PER_GPU:=20480}" "${LR:=1e-6}"
# Experts spread over the GPUs that train: half of one node unless it is colocated.
case "${MODE:-colocate}:${NODES:-${SLURM_NNODES:-1}}" in
    disaggregate:1 | async:1) : "${EP:=4}" ;;
    *) : "${EP:=8}" ;;
esac

prepare
[ "${ROUTING_REPLAY:-0}" = 0 ] || ROLLOUT_ARGS+=(--use-rollout-routing-replay)
[ "${CPU_OFFLOAD:-1}" = 0 ] || OPTIMIZER_ARGS+=(
    --optimizer-cpu-offload
    --overlap-cpu-optimizer-d2h-h2d
    --use-precision-aware-optimizer
)
launch "$@"
