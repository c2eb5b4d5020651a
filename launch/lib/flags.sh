# slime's flags, in arrays by theme.
# shellcheck disable=SC2034  # MODEL_ARGS and others are read in join_arrays

fill_arrays() {
    # shellcheck source=/dev/null
    source "$MODEL_PATH" # MODEL_ARGS: the architecture, from slime
    : "${TP:=1}" "${PP:=1}" "${CP:=1}" "${EP:=1}" "${ETP:=1}" "${MAX_TOKENS_PER_GPU:=9216}"
    : "${PROMPTS:=32}" "${SAMPLES:=16}" "${GLOBAL_BATCH:=$((PROMPTS * SAMPLES))}" "${EPOCHS:=1}"
    : "${MAX_RESPONSE:=8192}" "${MAX_CONTEXT:=$((MAX_RESPONSE + 1024))}" "${LR:=1e-5}"
    : "${KL_COEF:=0.001}" "${SAVE_INTERVAL:=20}" "${EVAL_INTERVAL:=20}" "${EVAL_SAMPLES:=1}"
    : "${GPUS_PER_ENGINE:=1}" "${MEM_FRACTION:=0.7}"
    : "${ROUTER_POLICY=consistent_hashing}" # a trajectory's turns meet its cached prefix
    place_gpus
    CKPT_ARGS=(
        --hf-checkpoint "$HF_CHECKPOINT"
        --ref-load "$REF_LOAD"
        --load "$RUN_DIR/checkpoints"
        --save "$RUN_DIR/checkpoints"
        --save-interval "$SAVE_INTERVAL"
    )
    ROLLOUT_ARGS=(
        --prompt-data "$TRAIN_DATA"
        --input-key prompt
        --label-key label
        --metadata-key metadata
        --rollout-shuffle
        --num-epoch "$EPOCHS"
        --rollout-batch-size "$PROMPTS"
        --n-samples-per-prompt "$SAMPLES"
        --rollout-max-response-len "$MAX_RESPONSE"
        --rollout-max-context-len "$MAX_CONTEXT"
        --rollout-temperature 1
        --global-batch-size "$GLOBAL_BATCH"
        --balance-data
    )
    SPADER_ARGS=(
        --rollout-function-path spader_slime.hooks.generate_rollout
        --custom-generate-function-path spader_slime.hooks.generate
        --custom-rm-path spader_slime.hooks.reward
        --group-rm
        --custom-reward-post-process-path spader_slime.hooks.post_process_rewards
        --custom-advantage-function-path spader_slime.hooks.compute_advantages
        --custom-config-path "$SPADER_CONFIG"
    )
    GRPO_ARGS=( # the loss; --advantage-estimator only names slime's default, our hook replaces it
        --advantage-estimator grpo
        --entropy-coef 0.0
        --eps-clip 0.2
        --eps-clip-c 3.0
    )
    OPTIMIZER_ARGS=(
        --optimizer adam
        --lr "$LR"
        --lr-decay-style constant
        --lr-warmup-fraction 0.05
        --weight-decay 0.01
        --adam-beta1 0.9
        --adam-beta2 0.999
    )
    PERF_ARGS=(
        --tensor-model-parallel-size "$TP"
        --pipeline-model-parallel-size "$PP"
        --context-parallel-size "$CP"
        --expert-model-parallel-size "$EP"
        --expert-tensor-parallel-size "$ETP"
        --recompute-granularity full
        --recompute-method uniform
        --recompute-num-layers 1
        --use-dynamic-batch-size
        --max-tokens-per-gpu "$MAX_TOKENS_PER_GPU"
    )
    SGLANG_ARGS=(
        --rollout-num-gpus-per-engine "$GPUS_PER_ENGINE"
        --sglang-mem-fraction-static "$MEM_FRACTION"
    )
    [ -z "$ROUTER_POLICY" ] || SGLANG_ARGS+=(--router-policy "$ROUTER_POLICY")
    LOG_ARGS=()
    MISC_ARGS=(
        --attention-dropout 0.0
        --hidden-dropout 0.0
        --accumulate-allreduce-grads-in-fp32
        --attention-softmax-in-fp32
        --attention-backend flash
    )
    ((TP == 1)) || PERF_ARGS+=(--sequence-parallel)
    fill_options
}

# What hangs on a variable.
fill_options() {
    EVAL_ARGS=()
    [ -z "$EVAL_DATA" ] || EVAL_ARGS=(
        --eval-interval "$EVAL_INTERVAL"
        --eval-prompt-data "$EVAL_NAME" "$EVAL_DATA"
        --n-samples-per-eval-prompt "$EVAL_SAMPLES"
        --eval-max-response-len "$MAX_RESPONSE"
        --eval-top-p 1
    )
    [ "$LOSS_RATIO $LOSS_AGGREGATE $DISTILL" = "token token off" ] || GRPO_ARGS+=(
        --loss-type custom_loss
        --custom-loss-function-path spader_slime.hooks.policy_loss
    )
    [ "$KL_COEF" = 0 ] || GRPO_ARGS+=(
        --use-kl-loss --kl-loss-coef "$KL_COEF" --kl-loss-type low_var_kl
    )
    [ "$DISTILL" != opd ] || GRPO_ARGS+=(
        --use-opd --opd-type sglang --opd-kl-coef "$REVERSE_KL_COEF"
    )
    [ "$LOSS_AGGREGATE" = step ] || GRPO_ARGS+=(--calculate-per-token-loss)
    [ "${DYNAMIC_FILTER:-0}" = 0 ] || SPADER_ARGS+=(
        --dynamic-sampling-filter-path spader_slime.hooks.keep_informative_group
    )
    [ -z "${ITERATIONS:-}" ] || ROLLOUT_ARGS+=(--num-rollout "$ITERATIONS") # outdoes --num-epoch
    [ -z "${OVER_SAMPLING:-}" ] || ROLLOUT_ARGS+=(--over-sampling-batch-size "$OVER_SAMPLING")
    [ "${PARTIAL_ROLLOUT:-0}" = 0 ] || ROLLOUT_ARGS+=(
        --partial-rollout --mask-offpolicy-in-partial-rollout
    )
    [ "${DUMP:-0}" = 0 ] || LOG_ARGS+=(
        --save-debug-rollout-data "$RUN_DIR/dumps/{rollout_id}.pt"
    )
    [ "${TENSORBOARD:-1}" = 0 ] || LOG_ARGS+=(
        --use-tensorboard --tb-project-name "$NAME" # the folder: TENSORBOARD_DIR of the job
    )
    [ -z "${WANDB_PROJECT:-}" ] || LOG_ARGS+=(
        --use-wandb --wandb-project "$WANDB_PROJECT" --wandb-group "$NAME"
    )
}

# CLUSTER_ARGS and DRIVER: which GPUs train, which ones sample.
place_gpus() {
    local actor_nodes="$NODES" actor_gpus="$GPUS_PER_NODE"
    DRIVER=train.py
    [ "$MODE" != async ] || DRIVER=train_async.py
    if [ "$MODE" != colocate ]; then
        split_gpus $((NODES * GPUS_PER_NODE))
        if [ "$NODES" = 1 ]; then
            actor_gpus=$((GPUS_PER_NODE - ROLLOUT_GPUS))
        else
            actor_nodes=$((NODES - ROLLOUT_GPUS / GPUS_PER_NODE))
        fi
    fi
    CLUSTER_ARGS=(
        --actor-num-nodes "$actor_nodes"
        --actor-num-gpus-per-node "$actor_gpus"
        --num-gpus-per-node "$GPUS_PER_NODE"
    )
    if [ "$MODE" = colocate ]; then
        CLUSTER_ARGS+=(--colocate)
    else
        CLUSTER_ARGS+=(--rollout-num-gpus "$ROLLOUT_GPUS")
    fi
}

# ROLLOUT_GPUS of TOTAL sample: half of them, in whole nodes where there are several.
split_gpus() {
    local total="$1" unit=1 half
    [ "$NODES" = 1 ] || unit="$GPUS_PER_NODE"
    half=$((total / unit / 2))
    : "${ROLLOUT_GPUS:=$((half * unit))}"
    whole ROLLOUT_GPUS 1
    ((ROLLOUT_GPUS < total)) ||
        fail "ROLLOUT_GPUS is $ROLLOUT_GPUS of $total; MODE=$MODE needs some for training too"
    ((ROLLOUT_GPUS % unit == 0)) ||
        fail "ROLLOUT_GPUS is $ROLLOUT_GPUS; on $NODES nodes it is a multiple of GPUS_PER_NODE=$unit"
    ((ROLLOUT_GPUS % GPUS_PER_ENGINE == 0)) ||
        fail "ROLLOUT_GPUS is $ROLLOUT_GPUS, no multiple of GPUS_PER_ENGINE=$GPUS_PER_ENGINE"
}

# TRAIN_ARGS: all of it, then the script's own arguments.
join_arrays() {
    TRAIN_ARGS=(
        "${CLUSTER_ARGS[@]}" "${MODEL_ARGS[@]}" "${CKPT_ARGS[@]}" "${ROLLOUT_ARGS[@]}"
        "${EVAL_ARGS[@]}" "${SPADER_ARGS[@]}" "${GRPO_ARGS[@]}" "${OPTIMIZER_ARGS[@]}"
        "${PERF_ARGS[@]}" "${SGLANG_ARGS[@]}" "${LOG_ARGS[@]}" "${MISC_ARGS[@]}" "$@"
    )
}
