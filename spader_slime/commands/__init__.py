"""The subcommands of `spader-slime`: a module for each group, its `add(commands)` declares them.

Heavy imports happen inside the functions that run: help is instant.
"""
