"""Questions, passages and a tokenizer made from facts that ship in PyPI packages."""
