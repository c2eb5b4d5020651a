"""Is what a sample holds what the engine really sent? Token by token, call by call."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from spader_slime import record
from spader_slime.episode import Episode
from support.engine import Call, ScriptedEngine

HEADER = "X-SMG-Routing-Key"
Calls = dict[str, list[Call]]


def calls_by_session(engine: ScriptedEngine) -> Calls:
    """The engine's calls by trajectory (the host has to route by consistent hashing)."""
    found: Calls = defaultdict(list)
    for call in engine.calls:
        found[call.headers[HEADER]].append(call)
    return found


def check_alignment(sample: Any, calls: Calls) -> list[str]:
    """Tokens, log-probs, mask and decision steps of a sample against the engine's own record.

    Returns the weight version that sampled each response token, "" for observations.
    """
    episode = record.episode_of(sample)
    length = sample.response_length
    assert len(sample.loss_mask) == len(sample.rollout_log_probs) == length
    assert isinstance(sample.reward, float)
    if sample.remove_sample:
        assert not any(sample.loss_mask)
    if not episode.response_ids:
        return []
    assert sample.tokens == episode.prompt_ids + episode.response_ids
    assert length == len(episode.response_ids)
    assert sample.rollout_log_probs == episode.log_probs
    versions = _versions(episode, calls[sample.session_id])
    assert episode.loss_mask == [int(bool(version)) for version in versions]
    for version, log_prob in zip(versions, episode.log_probs, strict=True):
        assert version or log_prob == 0.0
    return versions


def _versions(episode: Episode, calls: list[Call]) -> list[str]:
    versions = [""] * len(episode.response_ids)
    for start, end in episode.step_spans:
        place = start
        while place < end:
            before = episode.prompt_ids + episode.response_ids[:place]
            call = [c for c in calls if c.input_ids == before and c.output_ids][-1]
            stop = place + len(call.output_ids)
            assert episode.response_ids[place:stop] == call.output_ids
            assert episode.log_probs[place:stop] == call.log_probs
            versions[place:stop] = [call.weight_version] * (stop - place)
            place = stop
        assert place == end
    return versions
