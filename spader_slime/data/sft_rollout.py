"""A rollout function for slime's SFT: `spader_slime.data.sft_rollout.generate_rollout`.

For Qwen3's template it gives the tokens of slime main's own `slime.rollout.sft_rollout` with
`--loss-mask-type qwen3`, and beyond that: consecutive tool messages are one turn in slime v0.3.1
too; observations inside an assistant turn (Search-R1) are shown, but not learned, and nothing of
such a turn is dropped by the template; any template that an agent could use will do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from spader_slime.data.question import BadRecord
from spader_slime.data.sft import load_renderer
from spader_slime.data.sft_render import ChatRenderer
from spader_slime.errors import DataError

_loaded = lru_cache(maxsize=1)(load_renderer)


def generate_rollout(args: Any, rollout_id: int, data_buffer: Any, evaluation: bool = False) -> Any:
    """The next `rollout_batch_size` chats as samples with tokens and loss mask.

    Args:
        data_buffer: slime's data source; prompts are the rows' `messages`, `metadata` holds
            `tools` and `observation_tag` (`data sft` writes them).

    Raises:
        DataError: a chat that can't be rendered, or an evaluation.
    """
    if evaluation:
        raise DataError("this rollout function has no evaluation; leave out --eval-interval")
    renderer = _loaded(args.hf_checkpoint)
    groups = data_buffer.get_samples(args.rollout_batch_size)
    for group in groups:
        for sample in group:
            fill(sample, renderer)
    return groups


def fill(sample: Any, renderer: ChatRenderer) -> None:
    """Write tokens, response length and loss mask of its chat to a sample."""
    metadata = sample.metadata or {}
    tag = metadata.get("observation_tag") or ""
    try:
        rendered = renderer.render(sample.prompt, metadata.get("tools") or [], tag)
    except BadRecord as why:
        raise DataError(f"row {sample.index}: {why}; run `spader-slime data sft-check`") from why
    sample.tokens = rendered.ids
    sample.response_length = rendered.response_length
    sample.loss_mask = rendered.mask[-rendered.response_length :]
    sample.reward = 0.0
    sample.status = type(sample).Status.COMPLETED
