"""Evaluation of any policy by the very loop that it is trained in (docs/evaluation.md)."""
