"""New weights while the engine serves."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from support.engines import Client, log_prob_gap, plain_log_probs, plain_model, prompt, request
from support.holding import some_steps, start, until

PROMPTS = [prompt(20 + i, 90 + i) for i in range(6)]
BODIES = [request(p, max_new_tokens=15, sampling_seed=i) for i, p in enumerate(PROMPTS)]


def update(client: Client, folder: Path, **fields: Any) -> Any:
    return client.ok("/update_weights_from_disk", {"model_path": str(folder), **fields})


def outputs(replies: list[Any]) -> list[list[int]]:
    return [reply["output_ids"] for reply in replies]


def test_tokens_equal_those_of_an_engine_that_never_had_other_weights(
    changing: Client, client: Client, folders: list[Path]
) -> None:
    before = outputs(changing.many(BODIES))
    assert update(changing, folders[1], weight_version="step-7")["success"] is True
    replies = changing.many(BODIES)
    assert outputs(replies) != before
    other = plain_model(folders[1])
    for ids, reply in zip(PROMPTS, replies, strict=True):
        assert reply["meta_info"]["cached_tokens"] == 0  # nothing of the old weights is used
        assert reply["meta_info"]["weight_version"] == "step-7"
        assert log_prob_gap(other, ids, reply) < 1e-5
    update(changing, folders[0])
    assert outputs(changing.many(BODIES)) == outputs(client.many(BODIES)) == before


def test_versions_count_on_when_not_given(changing: Client, folders: list[Path]) -> None:
    def version() -> Any:
        return changing.ok("/get_weight_version")["weight_version"]

    seen = [version()]
    for given in ({}, {}, {"weight_version": 41}, {}, {"weight_version": "x"}, {}):
        update(changing, folders[0], **given)
        seen.append(version())
    assert seen == ["default", "1", "2", "41", "42", "x", "1"]
    assert changing.ok("/model_info")["weight_version"] == "1"


def test_an_update_waits_for_running_sequences(
    changing: Client, model: Any, folders: list[Path]
) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(4) as pool:
        running = start(pool, changing, 2)
        changing.ok("/continue_generation", {})
        until(lambda: changing.ok("/v1/loads")["loads"][0]["num_used_tokens"] > 30)
        done = pool.submit(update, changing, folders[1])
        replies = [future.result(60) for future in running]
        assert done.result(60)["success"]
    for i, reply in enumerate(replies):  # one policy from beginning to end
        assert reply["meta_info"]["weight_version"] == "default"
        assert log_prob_gap(model, prompt(8, i), reply) < 1e-5


def test_an_update_in_a_pause_is_taken_at_once(
    changing: Client, model: Any, folders: list[Path]
) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(2) as pool:
        held = start(pool, changing, 2, max_new_tokens=100)
        some_steps(changing)
        update(changing, folders[1], weight_version="new")
        changing.ok("/continue_generation", {})
        replies = [future.result(60) for future in held]
    models = [model, plain_model(folders[1])]
    for i, reply in enumerate(replies):
        assert reply["meta_info"]["weight_version"] == "new" and len(reply["output_ids"]) == 100
        assert old_part(models, prompt(8, i), reply) in range(1, 100)


def old_part(models: list[Any], ids: list[int], reply: Any) -> int:
    """So many tokens were scored by the first model; all others by the second."""
    output, triples = reply["output_ids"], reply["meta_info"]["output_token_logprobs"]
    by_model = []
    for model in models:
        plain = plain_log_probs(model, [*ids, *output])
        gaps = [plain[len(ids) - 1 + t, output[t]].item() - triples[t][0] for t in range(100)]
        by_model.append([abs(gap) < 1e-5 for gap in gaps])
    old = by_model[0].index(False)
    assert all(by_model[1][old:])
    return old


def test_abort_on_update(changing: Client, folders: list[Path]) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(2) as pool:
        held = start(pool, changing, 2)
        update(changing, folders[1], abort_all_requests=True)
        reasons = [f.result(30)["meta_info"]["finish_reason"]["type"] for f in held]
    assert reasons == ["abort", "abort"]


def test_bad_weights_leave_the_old_ones(
    changing: Client, folders: list[Path], tmp_path: Path
) -> None:
    before = outputs(changing.many(BODIES))
    for name, folder in bad_folders(folders[1], tmp_path).items():
        status, reply = changing.call("/update_weights_from_disk", {"model_path": str(folder)})
        assert status == 400 and reply["success"] is False and reply["message"], name
    assert changing.call("/update_weights_from_disk", {})[0] == 400
    assert outputs(changing.many(BODIES)) == before
    assert changing.ok("/get_weight_version")["weight_version"] == "default"


def bad_folders(good: Path, home: Path) -> dict[str, Path]:
    weights = load_file(good / "model.safetensors")
    norm = weights["model.norm.weight"]
    shapes = {**weights, "model.norm.weight": norm[:-1].contiguous()}
    missing = {name: tensor for name, tensor in weights.items() if "q_norm" not in name}
    folders = {"absent": home / "absent", "empty": home / "empty"}
    folders["empty"].mkdir()
    for name, changed in (("shapes", shapes), ("missing", missing)):
        folders[name] = Path(shutil.copytree(good, home / name))
        save_file(changed, folders[name] / "model.safetensors", {"format": "pt"})
    folders["torn"] = Path(shutil.copytree(good, home / "torn"))
    whole = (good / "model.safetensors").read_bytes()
    (folders["torn"] / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    return folders
