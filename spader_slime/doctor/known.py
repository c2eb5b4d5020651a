"""Names of slime's flags that we read, or that are easily misspelt."""

from __future__ import annotations

_VALUES = """
    actor-num-gpus-per-node actor-num-nodes advantage-estimator apply-chat-template-kwargs
    context-parallel-size custom-advantage-function-path custom-config-path
    custom-convert-samples-to-train-data-path custom-generate-function-path
    custom-loss-function-path custom-reward-post-process-path custom-rm-path
    decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers
    dynamic-sampling-filter-path eval-config eval-function-path eval-input-key eval-interval
    eval-label-key eval-max-context-len eval-max-prompt-len eval-max-response-len
    eval-prompt-data eval-reward-key expert-model-parallel-size expert-tensor-parallel-size
    ffn-hidden-size global-batch-size hf-checkpoint hidden-size input-key kl-coef kl-loss-coef
    kv-channels label-key load log-probs-max-tokens-per-gpu log-reward-category loss-type
    max-tokens-per-gpu metadata-key micro-batch-size moe-ffn-hidden-size n-samples-per-eval-prompt
    n-samples-per-prompt norm-epsilon num-attention-heads num-epoch num-experts num-gpus-per-node
    num-layers num-query-groups num-rollout num-steps-per-rollout opd-kl-coef opd-teacher-load
    opd-type over-sampling-batch-size pipeline-model-parallel-size prompt-data ref-load reward-key
    rollout-batch-size rollout-function-path rollout-max-context-len rollout-max-prompt-len
    rollout-max-response-len rollout-num-gpus rollout-num-gpus-per-engine rollout-temperature
    rollout-top-k rollout-top-p rotary-base save save-hf save-interval sglang-context-length
    tensor-model-parallel-size tool-key vocab-size
"""
_SWITCHES = """
    allgather-cp apply-chat-template balance-by-flops balance-data calculate-per-token-loss
    colocate disable-compute-advantages-and-returns disable-rewards-normalization
    disable-rollout-global-dataset group-query-attention group-rm
    mask-offpolicy-in-partial-rollout no-save-optim normalize-advantages partial-rollout
    rollout-shuffle sequence-parallel untie-embeddings-and-output-weights use-dynamic-batch-size
    use-kl-loss use-opd use-opsm use-rollout-logprobs use-rollout-routing-replay
    use-routing-replay use-tis
"""

VALUES = frozenset(_VALUES.split())  # take a value
SWITCHES = frozenset(_SWITCHES.split())
