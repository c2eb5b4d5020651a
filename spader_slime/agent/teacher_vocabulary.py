"""Whether a served teacher has the student's vocabulary.

SGLang tells neither its vocabulary nor a hash of it, but gives the text of every id it scores
(`return_text_in_logprobs`). The texts of ids from all over the vocabulary and of all special tokens
are compared one by one, which says more than a hash would: which id differs, and how.

Not every version of SGLang refuses an input id that its model has no row for, and feeding it one
can end the server. `logit_bias` is checked against the model's rows before anything runs, so that
a row is asked for there first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from spader_slime.agent.http import HttpFault
from spader_slime.agent.teacher_wire import scoring
from spader_slime.errors import TeacherError

Post = Callable[[bytes], Awaitable[bytes]]  # a /generate call; raises HttpFault

SAMPLED = 256  # ids from all over the vocabulary, and at most as many added tokens
PIECE = 64  # ids of one request: short enough for any context
REFUSED = (400, 422)


def size_of(tokenizer: Any) -> int:
    """One more than the largest id."""
    return max(tokenizer.get_vocab().values()) + 1


def sampled_ids(tokenizer: Any) -> list[int]:
    """Ids to be compared, ascending: evenly spread ones, first and last, and all special tokens."""
    every = sorted(set(tokenizer.get_vocab().values()))
    added = tokenizer.added_tokens_decoder
    special = [token for token, piece in added.items() if piece.special]
    return sorted({*_spread(every), *_spread(sorted(added)), *special, *tokenizer.all_special_ids})


def _spread(ids: Sequence[int]) -> list[int]:
    last = len(ids) - 1
    if last < SAMPLED:
        return list(ids)
    return [ids[number * last // (SAMPLED - 1)] for number in range(SAMPLED)]


async def compare(post: Post, tokenizer: Any) -> None:
    """Compare the server's vocabulary with `tokenizer`'s.

    Raises:
        TeacherError: kind "vocabulary": they differ, or the server gives no texts.
        HttpFault: the server can't be asked.
    """
    size, ids = size_of(tokenizer), sampled_ids(tokenizer)
    if await _has_row(post, ids[0], size - 1) is False:
        raise _differs(f"the teacher's is smaller: it has no id {size - 1}")
    for start in range(0, len(ids), PIECE):
        piece = ids[start : start + PIECE]
        _compare_texts(tokenizer, piece, await _texts(post, piece))
    if await _has_row(post, ids[0], size) is not False and getattr(tokenizer, "is_fast", False):
        await _expect_nothing(post, size)


async def has_entropy(post: Post, some_id: int) -> bool:
    """Whether the server knows `return_entropy` for its input (SGLang itself does not)."""
    ids = [some_id, some_id]
    try:
        body = await post(scoring(ids, logprob_start_len=0, return_entropy=True))
        return len(orjson.loads(body)["meta_info"].get("input_token_entropy") or ()) == len(ids)
    except (HttpFault, ValueError, TypeError, KeyError, AttributeError):
        return False


async def _has_row(post: Post, some_id: int, token: int) -> bool | None:
    """Whether the model has a row `token`; None where the server does not say."""
    try:
        await post(scoring([some_id], sampling_params={"logit_bias": {str(token): 0.0}}))
    except HttpFault as fault:
        if fault.status not in REFUSED:
            raise
        return False if "keys in" in str(fault) else None
    return True


async def _texts(post: Post, ids: list[int]) -> list[Any]:
    """The server's text of each id."""
    fields = {"logprob_start_len": 0, "return_text_in_logprobs": True}
    try:
        body = await post(scoring(ids, **fields))
        entries = orjson.loads(body)["meta_info"]["input_token_logprobs"]
        found, texts = [entry[1] for entry in entries], [entry[2] for entry in entries]
    except HttpFault as fault:
        if fault.status not in REFUSED:
            raise
        raise _differs(f"the teacher refuses ids up to {ids[-1]}: {fault}") from fault
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise HttpFault("malformed", f"the reply can't be read: {error!r}", True) from error
    if found != ids:
        raise HttpFault("malformed", "the reply scores other tokens than were sent", True)
    return texts


def _compare_texts(tokenizer: Any, ids: list[int], texts: list[Any]) -> None:
    if None in texts:
        raise _differs("the teacher gives no text of an id: it must be served with its tokenizer")
    for token, text in zip(ids, texts, strict=True):
        own = _decoded(tokenizer, token)
        if text != own and text != _decoded(tokenizer, token, tidy=True):
            raise _differs(f"id {token} is {text!r} to the teacher and {own!r} to the student")


def _decoded(tokenizer: Any, token: int, tidy: bool = False) -> str:
    """`tidy`: without spaces before punctuation, as a server may decode by default."""
    return str(tokenizer.decode([token], clean_up_tokenization_spaces=tidy))


async def _expect_nothing(post: Post, token: int) -> None:
    """Past its tokenizer a model may have spare rows, but no token with a text."""
    try:
        texts = await _texts(post, [token])
    except TeacherError:
        return  # refused: the vocabulary ends here
    if texts[0]:
        raise _differs(f"the teacher's is larger: its id {token} is {texts[0]!r}")


def _differs(how: str) -> TeacherError:
    return TeacherError("vocabulary", f"teacher and student must share one vocabulary; {how}")
