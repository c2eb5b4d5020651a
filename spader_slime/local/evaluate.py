"""Evaluation of the embedded host: any number of datasets at once, no group rewards."""

from __future__ import annotations

import asyncio
import copy
from argparse import Namespace
from functools import lru_cache
from typing import Any

from tqdm import tqdm

from spader_slime.errors import ConfigError
from spader_slime.local.data_source import read_prompts
from spader_slime.local.rollout import generate_and_reward
from spader_slime.local.sample import Sample, Status
from spader_slime.local.seam import EvalDataset, RolloutFnEvalOutput
from spader_slime.local.state import sampling_params, seeded


async def evaluate(args: Namespace, rollout_id: int) -> RolloutFnEvalOutput:
    """Run every dataset of `args.eval_datasets`; results are in file order.

    Raises:
        ConfigError: `group_rm` is on (as in slime, it has no meaning for single samples).
    """
    if args.group_rm:
        raise ConfigError("group_rm", True, "False in evaluation")
    names = [dataset.name for dataset in args.eval_datasets]
    if len(set(names)) != len(names):
        raise ConfigError("eval_datasets", names, "different names")
    with tqdm(desc=f"evaluation {rollout_id}", leave=False, disable=None, total=0) as bar:
        runs = (_run_dataset(args, dataset, bar) for dataset in args.eval_datasets)
        return RolloutFnEvalOutput(dict(zip(names, await asyncio.gather(*runs), strict=True)))


async def _run_dataset(args: Namespace, dataset: EvalDataset, bar: Any) -> dict[str, list[Any]]:
    samples = _samples(dataset)
    params = _params(args, dataset)
    bar.total += len(samples)

    async def one(sample: Sample) -> Sample:
        own = seeded(args, sample, params)
        done = await generate_and_reward(args, sample, own, evaluation=True)
        bar.update()
        return done

    done = await asyncio.gather(*map(one, samples))
    return {
        "rewards": [sample.reward for sample in done],
        "truncated": [sample.status is Status.TRUNCATED for sample in done],
        "samples": list(done),
    }


def _samples(dataset: EvalDataset) -> list[Sample]:
    keys = (dataset.input_key, dataset.label_key, dataset.metadata_key)
    prompts = _prompts(dataset.path, *keys)
    copies = dataset.n_samples_per_eval_prompt
    samples = [copy.deepcopy(prompt) for prompt in prompts for _ in range(copies)]
    for index, sample in enumerate(samples):
        sample.index = index
        sample.metadata.update(dataset.metadata_overrides)
        sample.custom_rm_path = dataset.custom_rm_path
        sample.generate_function_path = dataset.custom_generate_function_path
    return samples


_prompts = lru_cache(maxsize=16)(read_prompts)


def _params(args: Namespace, dataset: EvalDataset) -> dict[str, Any]:
    length = dataset.max_response_len or args.rollout_max_response_len
    return {
        **sampling_params(args),
        "temperature": dataset.temperature,
        "top_p": dataset.top_p,
        "top_k": dataset.top_k,
        "max_new_tokens": length,
    }
