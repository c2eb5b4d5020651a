"""Random sentence-transformers models of a few thousand weights, made on the spot."""

from __future__ import annotations

from pathlib import Path

PLACES = ("oslo", "lima", "rome", "bergen", "paris", "quito")
THINGS = ("river", "film", "city", "capital", "museum", "lake")
VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *PLACES,
    *THINGS,
    "old",
    "of",
    "in",
    ":",
)


def tiny_bert(folder: Path, labels: int | None = None, width: int = 16) -> Path:
    """Save a BERT with random weights (seed 0) and its tokenizer to `folder`.

    Args:
        labels: scores of a classification head; None: an encoder without one.
        width: numbers of a vector, even.
    """
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        initializer_range=1.0,  # far from the tiny default: other words, other vectors
        num_labels=labels or 2,
    )
    kind = BertModel if labels is None else BertForSequenceClassification
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind(config).eval().save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    return folder
