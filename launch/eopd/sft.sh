# Sourced by the *-sft-*.sh scripts after ../lib.sh: slime's supervised fine-tuning.
#
#   : "${NAME:=...}" "${HF_CHECKPOINT:=...}" "${TRAIN_DATA:=...}"
#   prepare_sft                 in the place of prepare
#   launch "$@"
#
# All GPUs train. Before the job, `spader-slime data sft-check` takes doctor's part.
# Variables beside those of ../lib.sh: SFT_BATCH, SFT_ROLLOUT, SFT_MAX_TOKENS, MIN_LR.
# shellcheck disable=SC2034  # arrays and settings are read in ../lib

prepare_sft() {
    : "${EPOCHS:=3}" "${SFT_BATCH:=128}" "${LR:=1e-5}" "${MIN_LR:=1e-6}" "${SAVE_INTERVAL:=500}"
    : "${SFT_ROLLOUT:=spader}"
    among SFT_ROLLOUT spader slime
    whole EPOCHS 1
    whole SFT_BATCH 1
    MODE=colocate EVAL_DATA="" ROUTER_POLICY=""
    TRAIN_DATA_HINT="make it with: spader-slime data sft"
    settle_cluster
    settle_paths
    export SPADER_ROLLOUT=sync
    LOSS_RATIO=token LOSS_AGGREGATE=token DISTILL=off KL_COEF=0
    fill_arrays
    : "${SFT_MAX_TOKENS:=$((MAX_TOKENS_PER_GPU * CP))}" # a row must fit into one micro-batch
    sft_arrays
}

sft_arrays() {
    local rollout=spader_slime.data.sft_rollout.generate_rollout
    [ "$SFT_ROLLOUT" = spader ] || rollout=slime.rollout.sft_rollout.generate_rollout
    DRIVER=train_async.py # reads the next batch while one trains
    CLUSTER_ARGS=(
        --actor-num-nodes "$NODES"
        --actor-num-gpus-per-node "$GPUS_PER_NODE"
        --num-gpus-per-node "$GPUS_PER_NODE"
        --debug-train-only # no engines
    )
    ROLLOUT_ARGS=(
        --rollout-function-path "$rollout"
        --loss-mask-type qwen3 # for slime's own function; its default drops the thinking
        --prompt-data "$TRAIN_DATA"
        --input-key messages
        --tool-key tools
        --metadata-key metadata
        --rollout-shuffle
        --num-epoch "$EPOCHS"
        --rollout-batch-size "$SFT_BATCH"
        --global-batch-size "$SFT_BATCH"
    )
    SPADER_ARGS=()
    SGLANG_ARGS=()
    GRPO_ARGS=(
        --loss-type sft_loss
        --calculate-per-token-loss
        --disable-compute-advantages-and-returns
    )
    OPTIMIZER_ARGS=(
        --optimizer adam
        --lr "$LR"
        --min-lr "$MIN_LR"
        --lr-decay-style cosine
        --lr-warmup-fraction 0.1
        --weight-decay 0.1
        --adam-beta1 0.9
        --adam-beta2 0.95
    )
}

# Called by ../lib/job.sh before the job.
doctor_command() {
    DOCTOR_COMMAND=(
        spader-slime data sft-check "${TRAIN_DATA%@\[*}" --tokenizer "$HF_CHECKPOINT"
        --max-tokens "$SFT_MAX_TOKENS"
    )
}
