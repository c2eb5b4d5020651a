"""Megatron torch_dist checkpoints and Hugging Face folders, each made from the other.

Reads and writes files only: no Megatron, no process group, no GPU.
"""
