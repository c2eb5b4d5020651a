"""The arguments that slime's loss and one training step of it read."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

HOOKS = "spader_slime.hooks"


def loss_args(**changes: Any) -> Namespace:
    """slime's defaults, with our hooks."""
    values: dict[str, Any] = {
        # loss
        "loss_type": "custom_loss", "custom_loss_function_path": f"{HOOKS}.policy_loss",
        "eps_clip": 0.2, "eps_clip_high": 0.28, "eps_clip_c": None, "entropy_coef": 0.0,
        "use_kl_loss": False, "kl_loss_coef": 0.1, "kl_loss_type": "low_var_kl",
        "use_unbiased_kl": False, "use_rollout_logprobs": False, "advantage_estimator": "grpo",
        "calculate_per_token_loss": False, "recompute_loss_function": False,
        "custom_pg_loss_reducer_function_path": None, "rollout_temperature": 1.0,
        "rollout_top_p": 1.0, "log_probs_chunk_size": -1, "allgather_cp": False,
        # corrections
        "use_tis": False, "get_mismatch_metrics": False, "custom_tis_function_path": None,
        "tis_clip": 2.0, "tis_clip_low": 0.0, "use_opsm": False, "opsm_delta": 1e-4,
        # advantages and logging
        "custom_advantage_function_path": f"{HOOKS}.compute_advantages", "kl_coef": 0,
        "use_opd": False, "normalize_advantages": False, "ci_test": False, "reward_key": None,
        "log_multi_turn": False, "log_passrate": False, "log_correct_samples": False,
        # batches
        "rewards_normalization": True, "global_batch_size": 4, "use_dynamic_batch_size": True,
        "max_tokens_per_gpu": 45, "balance_by_flops": False, "balance_data": False,
        "rollout_data_transport": "object-store", "data_pad_size_multiplier": 4,
        # one training step
        "custom_megatron_before_train_step_hook_path": None, "save_debug_train_data": None,
        "enable_mtp_training": False, "seq_length": 0, "micro_batch_size": 1,
        "decoder_seq_length": None, "spader": None,
    }  # fmt: skip
    return Namespace(**(values | changes))
