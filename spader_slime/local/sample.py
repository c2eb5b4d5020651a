"""A stand-in for slime's `Sample` where slime is absent: same fields, same status, same dictionary.

Two things of slime's class are left out, because the embedded engine never sends them: top-p replay
and routed experts. Their fields exist and stay None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


class Status(Enum):
    """Where a sample stands. Only `ABORTED` samples go back to the buffer of a partial rollout."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class SpecInfo:
    """Counters of speculative decoding, summed over the engine calls of a sample."""

    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0


@dataclass
class PrefixCacheInfo:
    """Prompt tokens, and those the engine found in its cache, summed over a sample's calls."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0

    @property
    def prefix_cache_hit_rate(self) -> float:
        return self.cached_tokens / self.total_prompt_tokens if self.total_prompt_tokens else 0.0

    def add(self, meta_info: dict[str, Any]) -> None:
        self.cached_tokens += meta_info.get("cached_tokens", 0)
        self.total_prompt_tokens += meta_info.get("prompt_tokens", 0)


_AFTER_FINISH = {
    "stop": Status.COMPLETED,
    "length": Status.TRUNCATED,
    "abort": Status.ABORTED,
}


@dataclass
class Sample:
    """One trajectory on its way from the data source to the trainer.

    `tokens` holds prompt and response; `loss_mask` and `rollout_log_probs` run over the response
    only and always have `response_length` entries.
    """

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, str]] = ""
    tokens: list[int] = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    multimodal_train_input_id: str | None = None
    apply_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    rollout_top_p_token_ids: Any = None
    rollout_top_p_token_offsets: Any = None
    rollout_routed_experts: Any = None
    remove_sample: bool = False
    teacher_log_probs: list[float] | None = None
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    generate_function_path: str | None = None
    custom_rm_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: SpecInfo = field(default_factory=SpecInfo)
    prefix_cache_info: PrefixCacheInfo = field(default_factory=PrefixCacheInfo)

    Status = Status  # slime spells it Sample.Status

    @property
    def effective_response_length(self) -> int:
        """Response tokens that are trained on."""
        return self.response_length if self.loss_mask is None else sum(self.loss_mask)

    def get_reward_value(self, args: Any) -> float:
        """The scalar reward, picked by `args.reward_key` where the reward is a mapping."""
        return self.reward[args.reward_key] if args.reward_key else self.reward

    def append_response_tokens(
        self,
        args: Any = None,
        *,
        tokens: Sequence[int] | None = None,
        log_probs: Sequence[float] | None = None,
        trainable: bool = True,
        meta_info: dict[str, Any] | None = None,
        text: str | None = None,
        update_terminal_info: bool = True,
    ) -> None:
        """Add sampled tokens (with `log_probs`), or an observation (`trainable=False`).

        Raises:
            ValueError: log-probs that are missing, of another length, or given for an observation.
        """
        new = [int(t) for t in tokens or ()]
        _check_log_probs(new, log_probs, trainable)
        self._extend(new, log_probs, trainable)
        self.response += text or ""
        if meta_info and update_terminal_info and "finish_reason" in meta_info:
            self._finish_turn(meta_info)

    def _extend(self, new: list[int], log_probs: Sequence[float] | None, trainable: bool) -> None:
        if log_probs is not None or new:
            values = [float(p) for p in log_probs] if log_probs is not None else [0.0] * len(new)
            self.rollout_log_probs = self._log_probs_so_far(trainable)
            self.rollout_log_probs += values
        if new:
            if self.loss_mask is None:
                self.loss_mask = [1] * self.response_length
            self.loss_mask += [int(trainable)] * len(new)
            self.tokens += new
            self.response_length += len(new)

    def _log_probs_so_far(self, trainable: bool) -> list[float]:
        if self.rollout_log_probs is None and self.response_length and trainable:
            raise ValueError("response tokens without log-probs can't be followed by sampled ones")
        return self.rollout_log_probs or [0.0] * self.response_length

    def _finish_turn(self, meta_info: dict[str, Any]) -> None:
        self.prefix_cache_info.add(meta_info)
        if "weight_version" in meta_info:
            self.weight_versions.append(meta_info["weight_version"])
        self.status = _AFTER_FINISH.get(meta_info["finish_reason"]["type"], self.status)

    def to_dict(self) -> dict[str, Any]:
        """The dictionary of slime's debug dumps: `status` by value, counters as mappings."""
        value = dict(self.__dict__)
        value["status"] = self.status.value
        value["spec_info"] = dict(self.spec_info.__dict__)
        value["prefix_cache_info"] = dict(self.prefix_cache_info.__dict__)
        return value

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Sample:
        """Inverse of `to_dict`; keys that are no field become attributes, as in slime."""
        value = dict(data)
        value["status"] = Status(value["status"])
        value["spec_info"] = SpecInfo(**value.get("spec_info", {}))
        value["prefix_cache_info"] = PrefixCacheInfo(**value.get("prefix_cache_info", {}))
        known = {f.name for f in fields(cls)}
        sample = cls(**{k: v for k, v in value.items() if k in known})
        sample.__dict__.update({k: v for k, v in value.items() if k not in known})
        return sample


def _check_log_probs(new: list[int], log_probs: Sequence[float] | None, trainable: bool) -> None:
    if log_probs is not None and len(log_probs) != len(new):
        raise ValueError(f"{len(log_probs)} log-probs for {len(new)} tokens")
    if new and trainable and log_probs is None:
        raise ValueError("sampled tokens need their log-probs")
    if new and not trainable and log_probs is not None:
        raise ValueError("observation tokens have no log-probs")
