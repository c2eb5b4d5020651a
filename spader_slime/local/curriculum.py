"""What the cold start shows at each step: raw copying first, then scripts that search."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from spader_slime.episode import Document
from spader_slime.errors import ConfigError
from spader_slime.local.guide import Guide, Question, name_tokens
from spader_slime.local.scripts import Script, ScriptWriter

if TYPE_CHECKING:
    from spader_slime.local.cold_start import ColdStartSettings

Ids = np.ndarray[Any, np.dtype[np.int64]]

LONG_COPY = (6, 20)  # documents of a copying script once searching has begun
FIRST_COPY = 12  # the longest copying script before that
TAIL = (5, 7)  # searches of the scripts that go on for long
SOURCES = 15  # copying scripts number their documents from 1 to this at most
TITLES_UNTIL = 0.35  # share of the copying phase that copies from bare titles


class Curriculum:
    """Batches of the cold start. Batch i follows from the seed and i alone.

    All scripts of a batch have the same number of searches (or of documents to copy), so they are
    about equally long.
    """

    def __init__(
        self, settings: ColdStartSettings, writer: ScriptWriter, guide: Guide, tokenizer: Any
    ) -> None:
        self._settings, self._writer, self._guide = settings, writer, guide
        self._names = np.array(sorted(name_tokens(tokenizer).values()))
        self._vocabulary = len(tokenizer)

    def batch(self, seed: int, step: int) -> dict[str, list[Any]]:
        """tokens (LongTensor), response_lengths and loss_masks, one entry per script."""
        rng = random.Random(f"cold start {seed} {step}")
        make = self._lesson(rng, step / self._settings.steps)
        scripts = [make(), make()]
        size = sum(map(len, scripts))
        while size + len(scripts[-1]) <= self._settings.batch_tokens:
            scripts.append(make())
            size += len(scripts[-1])
        names = self._exchange(rng)
        return {
            "tokens": [torch.from_numpy(names[s.prompt_ids + s.response_ids]) for s in scripts],
            "response_lengths": [len(script.response_ids) for script in scripts],
            "loss_masks": [torch.tensor(s.loss_mask, dtype=torch.int32) for s in scripts],
        }

    def _lesson(self, rng: random.Random, progress: float) -> Callable[[], Script]:
        """What all scripts of a step at `progress` in [0, 1) are about."""
        asked = self._settings
        if progress < asked.copy_share:
            return self._first_copies(rng, progress / asked.copy_share)
        if rng.random() < asked.copy_later_share:
            count = rng.randint(*LONG_COPY)
            return lambda: self._copying(rng, count, full=True)
        searches = self._searches(rng, progress)
        return lambda: self.searching(rng, rng.choice(self._guide.questions), searches)

    def _first_copies(self, rng: random.Random, progress: float) -> Callable[[], Script]:
        longest = max(2, 2 + int(progress * (FIRST_COPY - 2)))
        count = rng.randint(1, longest)
        full = progress > TITLES_UNTIL or rng.random() < 0.2
        return lambda: self._copying(rng, count, full)

    def _searches(self, rng: random.Random, progress: float) -> int:
        asked = self._settings
        if progress < asked.copy_share + asked.short_share:
            return rng.randint(1, 2)
        if rng.random() < asked.tail_share:
            return rng.randint(*TAIL)
        weights = asked.search_weights
        return rng.choices(range(1, len(weights) + 1), weights)[0]

    def _copying(self, rng: random.Random, count: int, full: bool) -> Script:
        documents = rng.sample(self._guide.documents, count)
        if not full:
            documents = [Document(document.title, "") for document in documents]
        start = rng.choice([1, 1, rng.randint(1, SOURCES)])
        names = [(number, d.title) for number, d in enumerate(documents, start)]
        rng.shuffle(names)
        script = self._writer.copying(documents, start, names)
        if count > 1 and 2 * len(script) > self._settings.batch_tokens:
            return self._copying(rng, count // 2, full)
        return script

    def searching(self, rng: random.Random, question: Question, searches: int) -> Script:
        """The plain query, then titles met on the way; the answer cites what is right.

        A source and what is copied from it always go together as `[n] title`, so that all the
        freedom of a script lies in which sources it picks, one token each.

        Raises:
            ConfigError: the first search does not fit the token limits.
        """
        writer, script = self._writer, self._writer.begin(question.text)
        used = {question.subject}
        source, query = 0, question.subject
        while writer.search(script, source, query, self._guide.search(query)):
            found = list(enumerate(script.documents, 1))
            clues = [(number, d.title) for number, d in found if d.title not in used]
            if len(script.turns) == searches or not clues:
                break
            source, clue = rng.choice(clues)
            used.add(clue)
            query = f"{clue} {question.subject}"
        if not script.turns:
            raise ConfigError("spader.agent", query, "token limits that leave room for a search")
        found = list(enumerate(script.documents, 1))
        writer.answer(script, [(number, d.title) for number, d in found if question.wants(d)])
        return script

    def _exchange(self, rng: random.Random) -> Ids:
        """Token -> token: mostly every name becomes another one, throughout the batch, so that
        the policy has to read names where they stand and can't know them by heart."""
        table = np.arange(self._vocabulary)
        if rng.random() < self._settings.permute_share:
            drawn = np.random.default_rng(rng.getrandbits(64))
            table[self._names] = drawn.permutation(self._names)
        return table
