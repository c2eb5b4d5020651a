"""An inference engine that speaks SGLang's native protocol over transformers, on CPU or GPU.

From the bottom up: `params` and `wire` (requests), `sampling`, `stops`, `slots` (what the rows of
the cache hold), `attention` and `runner` (the model over them), `sequences` and `scheduler` (one
thread, continuous batching), `replies`, `server` and `serve` (HTTP), `launch` (its own process).
"""
