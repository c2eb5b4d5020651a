"""Episodes and credits inside a host's sample: `sample.metadata["spader"]`.

Works on slime's `Sample` and on the embedded stand-in alike. The sample's own arrays are what is
trained on; the episode says which of them belong to which decision step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from spader_slime.algorithms.credit import Credit
from spader_slime.algorithms.teacher_scores import Lesson, unpack
from spader_slime.episode import End, Episode
from spader_slime.errors import ConfigError, DataError

KEY = "spader"
TEACHER = "teacher"  # under KEY: how the teacher's call went
TIERS = "tiers"  # another key of metadata: one tier per gold answer, None where it has none

_STATUS = {
    End.ANSWERED: "COMPLETED",
    End.INVALID: "COMPLETED",
    End.TURN_LIMIT: "TRUNCATED",
    End.TOKEN_LIMIT: "TRUNCATED",
    End.ABORTED: "ABORTED",
    End.INFRASTRUCTURE: "FAILED",
}


def notes(sample: Any) -> dict[str, Any]:
    """Our corner of the sample's metadata (created on first use)."""
    if not isinstance(sample.metadata, dict):
        sample.metadata = {}
    found: dict[str, Any] = sample.metadata.setdefault(KEY, {})
    return found


def open_episode(sample: Any, prompt_ids: Sequence[int], keep_mask: bool) -> Episode:
    """A fresh episode, or the aborted one to go on with.

    A resumed sample gets the loss mask of its episode back; `keep_mask` leaves it as the host made
    it (slime zeroes it under --mask-offpolicy-in-partial-rollout). A sample that failed or never
    sampled starts with the prompt alone.
    """
    stored = notes(sample).get("episode")
    sample.remove_sample = False
    if stored is None or stored["end"] != End.ABORTED.value or not stored["response_ids"]:
        _clear(sample, prompt_ids)
        return Episode(prompt_ids=list(prompt_ids))
    episode = Episode.from_dict(stored)
    if not (keep_mask and len(sample.loss_mask or ()) == len(episode.response_ids)):
        sample.loss_mask = list(episode.loss_mask)
    return episode


def _clear(sample: Any, prompt_ids: Sequence[int]) -> None:
    notes(sample).clear()
    sample.tokens, sample.response, sample.response_length = list(prompt_ids), "", 0
    sample.loss_mask, sample.rollout_log_probs = [], []
    sample.rollout_top_p_token_ids = sample.rollout_top_p_token_offsets = None
    sample.rollout_routed_experts = None
    sample.weight_versions, sample.reward = [], None


def close_episode(sample: Any, episode: Episode, evaluation: bool) -> None:
    """Store the episode and give the sample its final status (the last word is ours).

    An evaluation is never resumed: there an aborted episode is a failed one.
    """
    notes(sample).update(episode=episode.to_dict(), evaluation=evaluation)
    lost = evaluation and episode.end is End.ABORTED
    sample.status = getattr(type(sample).Status, "FAILED" if lost else _STATUS[episode.end])
    sample.non_generation_time = sum(turn.search_s for turn in episode.turns)


def check_group(samples: Any) -> None:
    """Single samples are graded in evaluation only: peers make the advantage.

    Raises:
        ConfigError: a single sample of training, which means that --group-rm is missing.
    """
    if not isinstance(samples, list) and not notes(samples).get("evaluation"):
        raise ConfigError("group_rm", False, "--group-rm, so that peers are rewarded together")


def shown(episodes: list[Episode]) -> int:
    """Characters of all documents shown: what grading has to go through."""
    documents = (d for e in episodes for turn in e.turns for d in turn.documents)
    return sum(len(document.title) + len(document.text) for document in documents)


def episode_of(sample: Any) -> Episode:
    """The sample's episode; one that never started counts as aborted."""
    stored = notes(sample).get("episode")
    return Episode(end=End.ABORTED) if stored is None else Episode.from_dict(stored)


def credit_of(sample: Any) -> Credit:
    """The sample's credit.

    Raises:
        DataError: the sample was never rewarded by our hook.
    """
    stored = notes(sample).get("credit")
    if stored is None:
        raise DataError(
            f"sample {sample.index} carries no credit: run with --group-rm "
            "--custom-rm-path spader_slime.hooks.reward"
        )
    return Credit.from_dict(stored)


def lesson_of(sample: Any) -> Lesson | None:
    """The teacher's judgement, or None where it was not asked."""
    stored = notes(sample).get(TEACHER)
    if stored is None or sample.teacher_log_probs is None:
        return None
    packed = torch.as_tensor(sample.teacher_log_probs, dtype=torch.float32)
    return Lesson(unpack(packed), stored["fault"], stored["seconds"])


def store_credit(sample: Any, credit: Credit) -> None:
    """Store the credit; a sample that is not included is taken out of the loss."""
    notes(sample)["credit"] = credit.to_dict()
    if not credit.included:
        exclude(sample)


def exclude(sample: Any) -> None:
    """Take a sample out of training while every array keeps the length hosts rely on.

    A response of no tokens gets one masked placeholder: hosts slice `tokens[-response_length:]`.
    """
    if not sample.tokens:
        sample.tokens = [0]  # never reached the tokenizer: one prompt token and one response token
    if not sample.response_length:
        sample.append_response_tokens(tokens=[sample.tokens[-1]], trainable=False)
    sample.remove_sample = True
    sample.loss_mask = [0] * sample.response_length
    if sample.rollout_log_probs is None:
        sample.rollout_log_probs = [0.0] * sample.response_length
