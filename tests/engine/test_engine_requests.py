"""Forms of requests, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from support.engines import Client, prompt, request

from spader_slime.errors import EngineError
from spader_slime.local.engine.prompts import Limits
from spader_slime.local.engine.wire import parse_generate

CONTEXT = 256  # of the engine in conftest.py


def test_lists_of_prompts_with_their_own_fields(client: Client) -> None:
    prompts = [prompt(5, 1), prompt(9, 2)]
    body = {
        "input_ids": prompts,
        "sampling_params": [{"max_new_tokens": n, "ignore_eos": True} for n in (2, 3)],
        "return_logprob": [True, False],
        "logprob_start_len": [3, -1],
        "token_ids_logprob": [[4], None],
        "rid": ["one", "two"],
    }
    first, second = client.ok("/generate", body)
    assert (first["meta_info"]["id"], second["meta_info"]["id"]) == ("one", "two")
    assert (len(first["output_ids"]), len(second["output_ids"])) == (2, 3)
    assert len(first["meta_info"]["input_token_logprobs"]) == 2
    assert "output_token_logprobs" not in second["meta_info"]
    assert first["meta_info"]["output_token_ids_logprobs"][0][0][1] == 4


def test_shared_fields_of_a_list(client: Client) -> None:
    body = {**request([1]), "input_ids": [[3, 4]], "rid": "r", "token_ids_logprob": [7, 8]}
    (reply,) = client.ok("/generate", body | {"sampling_params": {"max_new_tokens": 1}})
    assert reply["meta_info"]["id"] == "r_0"
    assert [t[1] for t in reply["meta_info"]["output_token_ids_logprobs"][0]] == [7, 8]


def test_text(client: Client, tokenizer: Any) -> None:
    params = {"sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    by_text = client.ok("/generate", {"text": "Oslo, →", **params})
    by_ids = client.ok("/generate", {"input_ids": tokenizer.encode("Oslo, →"), **params})
    assert by_text["output_ids"] == by_ids["output_ids"]
    many = client.ok("/generate", {"text": ["Oslo, →", "b"], **params})
    assert many[0]["output_ids"] == by_ids["output_ids"]


def test_parameters_that_slime_sends(client: Client) -> None:
    params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 3, "stop": None}
    params |= {"stop_token_ids": None, "skip_special_tokens": False, "no_stop_trim": True}
    params |= {"spaces_between_special_tokens": False}
    assert client.ok("/generate", request(prompt(4, 1), **params))["output_ids"]


def test_by_default_the_output_fits_the_context(client: Client) -> None:
    reply = client.generate(prompt(CONTEXT - 10, 3), ignore_eos=True)
    assert len(reply["output_ids"]) == 9
    assert len(client.generate(prompt(10, 3), ignore_eos=True)["output_ids"]) == 128


PROMPT = prompt(10, 4)
REFUSED = {
    "context": request(PROMPT, max_new_tokens=CONTEXT - 10),
    "input": request(prompt(CONTEXT, 4)),
    "vocabulary": request([5, 259]),
    "negative": request([5, -1]),
    "real id": request([5, 1.5]),
    "true": request([True]),
    "empty": request([]),
    "no prompt": {"sampling_params": {}},
    "two prompts": {"text": "a", "input_ids": [3]},
    "empty text": {"text": ""},
    "no texts": {"text": []},
    "text type": {"text": 5},
    "nested": {"input_ids": [[3], 4]},
    "unknown field": request(PROMPT, _image_data=["x"]),
    "streaming": request(PROMPT, _stream=True),
    "unknown parameter": request(PROMPT, tempersture=1),
    "penalty": request(PROMPT, frequency_penalty=0.5),
    "several samples": request(PROMPT, n=2),
    "temperature": request(PROMPT, temperature=-1),
    "temperature type": request(PROMPT, temperature="1"),
    "top_p": request(PROMPT, top_p=1.5),
    "top_k": request(PROMPT, top_k=0),
    "new tokens": request(PROMPT, max_new_tokens=-1),
    "stop": request(PROMPT, stop=[1]),
    "parameters": request(PROMPT, _sampling_params=[1]),
    "list of parameters": {"input_ids": [[3]], "sampling_params": [{}, {}]},
    "score start": request(PROMPT, _logprob_start_len=11),
    "top number": request(PROMPT, _top_logprobs_num=-1),
    "asked": request(PROMPT, _token_ids_logprob=[259]),
    "rid": request(PROMPT, _rid=5),
    "rids": {"input_ids": [[3], [4]], "rid": ["a"]},
    "list": [1, 2],
    "not JSON": b"{nope",
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client: Client, name: str) -> None:
    status, reply = client.call("/generate", REFUSED[name])
    assert status == 400
    assert isinstance(reply["error"]["message"], str) and reply["error"]["message"]


def test_just_below_the_context_is_served(client: Client) -> None:
    reply = client.generate(PROMPT, max_new_tokens=CONTEXT - 11, ignore_eos=True)
    assert len(reply["output_ids"]) == CONTEXT - 11


def test_a_huge_body_is_refused_without_harm(client: Client) -> None:
    status, reply = client.call("/generate", b" " * (65 * 2**20))
    assert status == 413 and reply["error"]["message"]
    assert client.generate(PROMPT, max_new_tokens=1)["output_ids"]


def test_unknown_path(client: Client) -> None:
    assert client.call("/nowhere")[0] == 404


def test_without_a_tokenizer_ids_go_in_and_out() -> None:
    limits = Limits(256, 259, None)
    (parsed,), _ = parse_generate(request(PROMPT), limits)
    assert parsed.input_ids.tolist() == PROMPT
    for body in ({"text": "a"}, request(PROMPT, stop=["x"])):
        with pytest.raises(EngineError, match="no tokenizer"):
            parse_generate(body, limits)
