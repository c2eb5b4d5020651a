"""An inference engine that speaks SGLang's native protocol over transformers, on CPU or GPU.

From the bottom up: `params`, `prompts` and `wire` (what is asked), `sampling` and `stops`,
`plans`, `cache` and `attention` (packed tokens over key-value rows), `batches`, `weights` and
`runner` (the model), `slots` (what rows hold), `jobs`, `outputs` and `steps` (the running batch),
`scheduler` (one thread), `replies`, `info`, `messages` and `server` (HTTP), `serve`, `launch`.
"""
