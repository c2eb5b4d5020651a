"""slime's own SFT rollout and ours on the same file.

    python on_sft.py SLIME OUT MODEL_FOLDER FILE...

Both through slime's data source, and then through what makes train data of samples. Writes the
version of slime, and for each file and each of the two [tokens, loss mask, length of response] of
every row in order.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contracts.real_slime import Manager, use_slime, version

ROLLOUTS = {
    "slime": "slime.rollout.sft_rollout.generate_rollout",
    "ours": "spader_slime.data.sft_rollout.generate_rollout",
}


def main(slime: str, out: str, model: str, *files: str) -> None:
    use_slime(slime)
    found: dict[str, Any] = {"version": version()}
    for path in files:
        for name, function in ROLLOUTS.items():
            found[f"{path} {name}"] = rows(path, model, function)
    Path(out).write_text(json.dumps(found), "utf-8")


def rows(path: str, model: str, function: str) -> list[Any]:
    """What one epoch becomes."""
    data_source: Any = import_module("slime.rollout.data_source")
    args = _args(path, model)
    source = data_source.RolloutDataSourceWithBuffer(args)
    count = args.rollout_batch_size = len(source)
    load: Any = import_module("slime.utils.misc").load_function
    call: Any = import_module("slime.rollout.base_types").call_rollout_fn
    groups = call(load(function), args, 0, source, evaluation=False).samples
    samples = [sample for group in groups for sample in group]
    data = Manager(args, lambda args, s: ([0.0] * len(s), [0.0] * len(s))).convert(samples)
    assert len(data["tokens"]) == count
    columns = (data["tokens"], data["loss_masks"], data["response_lengths"])
    return [list(row) for row in zip(*columns, strict=True)]


def _args(path: str, model: str) -> Namespace:
    return Namespace(
        hf_checkpoint=model, prompt_data=path, input_key="messages", tool_key="tools",
        metadata_key="metadata", label_key=None, multimodal_keys=None, rollout_global_dataset=True,
        rollout_shuffle=False, rollout_seed=1, rollout_max_prompt_len=None, dump_details=None,
        apply_chat_template=False, apply_chat_template_kwargs=None, buffer_filter_path=None,
        n_samples_per_prompt=1, loss_mask_type="qwen3", reward_key=None, global_batch_size=1,
        use_dynamic_global_batch_size=False, use_opd=False, use_rollout_routing_replay=False,
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
