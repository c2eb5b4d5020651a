"""Reads files with slime's own Dataset: `python on_dataset.py SLIME OUT FILE...`; run by a test.

Writes what the samples hold, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contracts.real_slime import use_slime
from support.tokenizers import byte_tokenizer


def main(slime: str, out: str, *files: str) -> None:
    """Every file twice: prompts as they are, and rendered by a chat template."""
    use_slime(slime)
    from slime.utils.data import Dataset, get_source

    found = {}
    for path in files:
        for rendered in (False, True):
            dataset = Dataset(
                path, byte_tokenizer(), None, None, prompt_key="prompt", label_key="label",
                metadata_key="metadata", apply_chat_template=rendered,
            )  # fmt: skip
            dataset.shuffle(0)
            found[f"{path} {rendered}"] = sorted(
                [sample.metadata["id"], sample.prompt, sample.label, get_source(sample)]
                for sample in dataset.samples
            )
    Path(out).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
