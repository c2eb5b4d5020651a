# Sourced by the run-*.sh scripts: training on a slime cluster.
#
#   source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#   : "${NAME:=my-run}" "${MODEL_FILE:=qwen3-8B}" "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B}"
#   prepare                     checks the variables; fills the arrays below
#   PERF_ARGS+=(--some-flag)    what this run has beside them
#   launch "$@"                 Ray, doctor, the job; "$@" goes to slime last and so wins
#
# Arrays: MODEL_ARGS CLUSTER_ARGS CKPT_ARGS ROLLOUT_ARGS EVAL_ARGS SPADER_ARGS GRPO_ARGS
# OPTIMIZER_ARGS PERF_ARGS SGLANG_ARGS LOG_ARGS MISC_ARGS. Variables: docs/cluster.md.
# DRY_RUN=1 prints the commands and starts nothing.

LAUNCH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$LAUNCH/environment.sh" # say, fail, ROOT, set -euo pipefail
source "$LAUNCH/lib/words.sh"
source "$LAUNCH/lib/settings.sh"
source "$LAUNCH/lib/flags.sh"
source "$LAUNCH/lib/ray.sh"
source "$LAUNCH/lib/job.sh"

: "${MODELS_DIR:=$ROOT/models}" "${DATA_DIR:=$ROOT/data}" "${DRY_RUN:=0}"

# Settle every variable and fill the arrays.
prepare() {
    settle_cluster
    settle_paths
    settle_method
    fill_arrays
}

# Print the commands, or run this node's part.
launch() {
    join_arrays "$@"
    case "$DRY_RUN:$ROLE" in
        1:*) print_commands ;;
        *:worker) run_worker ;;
        *) run_head ;;
    esac
}
