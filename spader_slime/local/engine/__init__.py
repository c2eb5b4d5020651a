"""An inference engine that speaks SGLang's protocol over transformers, on CPU or GPU.

From the bottom up: `params`, `prompts` and `wire` (what is asked), `sampling` and `stops`,
`plans`, `cache` and `attention` (packed tokens over key-value rows), `batches`, `weights` and
`runner` (the model), `slots` (what rows hold), `jobs`, `outputs` and `steps` (the running batch),
`scheduler` (one thread), `replies`, `chat_messages`, `chat_fields` and `chat` (OpenAI's chat
route), `info`, `messages` and `server` (HTTP), `serve`, `launch`.
"""
