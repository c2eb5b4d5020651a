"""What depends on the host: slime v0.3.1, slime main, or the embedded one.

The embedded host puts its state on `args.spader_state`; without it, slime is asked. Nothing else in
the package imports slime.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from spader_slime.agent.event_loops import LoopSemaphore
from spader_slime.config import SpaderConfig, load_spader
from spader_slime.errors import ConfigError


class HostState(Protocol):
    """The part of slime's GenerateState that the hooks use."""

    tokenizer: Any
    aborted: bool


_configs: dict[int, tuple[Any, SpaderConfig]] = {}
_current_rollout: dict[str, int] = {}


def settings(args: Namespace) -> SpaderConfig:
    """The checked configuration under `args.spader`; read once, also for copies of `args`.

    Raises:
        ConfigError: a key or a value that is not allowed.
    """
    source = getattr(args, "spader", None)
    if isinstance(source, SpaderConfig):
        return source
    if id(source) not in _configs:  # the source is kept, so its id stays taken
        _configs[id(source)] = (source, load_spader(source))
    return _configs[id(source)][1]


def embedded(args: Namespace) -> bool:
    """Whether the embedded host runs, rather than slime."""
    return getattr(args, "spader_state", None) is not None


def host_state(args: Namespace) -> HostState:
    """Tokenizer and abort flag of the running host."""
    if embedded(args):
        state: HostState = args.spader_state
        return state
    from slime.rollout.sglang_rollout import GenerateState

    found: HostState = GenerateState(args)
    return found


def host_rollout(args: Namespace, evaluation: bool) -> Callable[..., Any]:
    """The host's own rollout function, to which `hooks.generate_rollout` delegates.

    slime's fully-async rollout refuses to evaluate: its synchronous one does that.
    """
    if embedded(args):
        return args.spader_state.generate_rollout
    if settings(args).rollout == "fully_async":
        _share_places(args)
    if settings(args).rollout == "fully_async" and not evaluation:
        from slime.rollout.base_types import call_rollout_fn
        from slime.rollout.fully_async_rollout import generate_rollout_fully_async

        return partial(call_rollout_fn, generate_rollout_fully_async)
    from slime.rollout.sglang_rollout import generate_rollout

    return generate_rollout


def _share_places(args: Namespace) -> None:
    """Let training and evaluation wait for the engine in event loops of their own.

    slime's GenerateState has one semaphore, which belongs to the first loop that has to wait on it;
    evaluation beside a fully-async rollout would fail in another.
    """
    from slime.utils.http_utils import get_rollout_num_engines

    state: Any = host_state(args)
    if not isinstance(state.semaphore, LoopSemaphore):
        places = args.sglang_server_concurrency * get_rollout_num_engines(args)
        state.semaphore = LoopSemaphore(places)


def without_group_reward(args: Namespace) -> Namespace:
    """A copy of `args` for evaluation, which slime refuses under --group-rm."""
    changed = copy.copy(args)
    changed.group_rm = False
    return changed


def remember_rollout(rollout_id: int) -> None:
    """Note the training step: custom rewards are not told."""
    _current_rollout["id"] = rollout_id


def training_step(args: Namespace) -> int:
    """The training step that c(step) is taken at: the rollout last begun.

    Raises:
        ConfigError: no rollout function of ours has run, and slime does not say.
    """
    if "id" in _current_rollout:
        return _current_rollout["id"]
    found = None if embedded(args) else _slime_rollout_id()
    if found is None:
        path = getattr(args, "rollout_function_path", None)
        raise ConfigError("rollout_function_path", path, "spader_slime.hooks.generate_rollout")
    return found


def _slime_rollout_id() -> int | None:
    try:
        from slime.rollout import sample_hooks
    except ImportError:
        return None
    return getattr(sample_hooks, "_current_rollout_id", None)


def filter_output(args: Namespace, keep: bool, reason: str | None) -> Any:
    """The host's own verdict object for a dynamic sampling filter."""
    if embedded(args):
        return args.spader_state.filter_output(keep=keep, reason=reason)
    from slime.rollout.filter_hub.base_types import DynamicFilterOutput

    return DynamicFilterOutput(keep=keep, reason=reason)


def engine_url(args: Namespace) -> str:
    """Base address of the router or engine."""
    return f"http://{args.sglang_router_ip}:{args.sglang_router_port}"


def engine_headers(args: Namespace, sample: Any) -> dict[str, str] | None:
    """Routing header that keeps a trajectory's turns on one engine under consistent hashing."""
    session = getattr(sample, "session_id", None)
    if session and getattr(args, "router_policy", None) == "consistent_hashing":
        return {"X-SMG-Routing-Key": session}
    return None


def engine_request(args: Namespace) -> dict[str, Any]:
    """Fields that the host wants in every request, beside ids and sampling parameters."""
    replay = getattr(args, "use_rollout_routing_replay", False)
    return {"return_routed_experts": True} if replay else {}


def context_length(args: Namespace, evaluation: bool) -> int | None:
    """Longest input plus output the engine takes, or None when the host does not say."""
    names = ["eval_max_context_len"] if evaluation else []
    values = (getattr(args, name, None) for name in [*names, "rollout_max_context_len"])
    return next((value for value in values if value is not None), None)


def batch_positions(rollout_data: dict[str, Any]) -> list[int]:
    """Where this rank's samples stand in the whole batch.

    slime v0.3.1 drops `partition` on the way to the trainer; its rollout ids count the samples of
    the batch from 0 as long as nobody sets `Sample.rollout_id`.
    """
    positions: list[int] = rollout_data.get("partition") or rollout_data["rollout_ids"]
    return positions


def policy_loss(args: Namespace, batch: dict[str, Any], logits: Any, reducer: Any) -> Any:
    """slime's own policy loss."""
    from slime.backends.megatron_utils.loss import policy_loss_function

    return policy_loss_function(args, batch, logits, reducer)


def measure(args: Namespace, batch: dict[str, Any], logits: Any) -> tuple[list[Any], list[Any]]:
    """Log-probs and entropies of the response tokens that this rank owns, a tensor per sample."""
    from slime.backends.megatron_utils import loss

    names = ("unconcat_tokens", "total_lengths", "response_lengths")
    lists = {name: batch[name] for name in names}
    nuclei = loss.get_rollout_top_p_logprob_kwargs(args, batch)
    _, found = loss.get_log_probs_and_entropy(
        logits, args=args, with_entropy=True, **lists, **nuclei
    )
    return found["log_probs"], found["entropy"]


def response_places(args: Namespace, batch: dict[str, Any], logits: Any) -> tuple[Any, Any]:
    """Row of the logits that predicts each response token of this rank, and its id; int64.

    In the order of `measure`. slime says: it is handed numbers of rows in place of the logits.
    """
    import torch
    from slime.backends.megatron_utils.loss import get_responses

    numbers = torch.arange(logits.shape[1], dtype=torch.float32, device=logits.device)
    lists = {name: batch[name] for name in ("unconcat_tokens", "total_lengths", "response_lengths")}
    found = list(get_responses(numbers.view(1, -1, 1), args=args, apply_temperature=False, **lists))
    rows, ids = (torch.cat([pair[side].flatten() for pair in found]).long() for side in (0, 1))
    return rows, ids


def divergence(args: Namespace, log_probs: Any, reference: Any, ratio: Any) -> Any:
    """slime's estimate of the KL to the reference, token by token (--kl-loss-type)."""
    from slime.utils.ppo_utils import compute_approx_kl

    return compute_approx_kl(log_probs, reference, args.kl_loss_type, ratio)
