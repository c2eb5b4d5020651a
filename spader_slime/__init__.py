"""SPADER and EOPD for multi-turn search agents, as a plugin for slime and Megatron."""

__version__ = "0.1.0"
