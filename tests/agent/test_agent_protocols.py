"""How turns are read and observations are worded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spader_slime.agent.protocol import MAX_QUERIES, Action, Protocol, make_protocol
from spader_slime.config import AgentConfig
from spader_slime.episode import Document, TurnKind
from spader_slime.errors import ConfigError

OSLO, BERGEN = Document("Oslo", "Capital of Norway."), Document("Bergen", "Rain.")


def protocol(name: str = "spader", prompt_file: str | None = None) -> Protocol:
    return make_protocol(AgentConfig(protocol=name, prompt_file=prompt_file))


def read(text: str, name: str = "spader") -> Action:
    return protocol(name).parse(text)


@pytest.mark.parametrize(
    ("text", "kind", "calls"),
    [
        ('<tool_call>["a", "b"]</tool_call>', TurnKind.SEARCH, 2),
        ('<tool_call>["a"]</tool_call><tool_call>oops</tool_call>', TurnKind.SEARCH, 2),
        ('<tool_call>["a"]</tool_call> so <tool_call>["b"', TurnKind.SEARCH, 2),
        ("<tool_call>oops</tool_call>", TurnKind.MALFORMED, 1),
        ("<tool_call>a</tool_call><tool_call>b</tool_call>", TurnKind.MALFORMED, 2),
        ('<think><tool_call>["a"]</tool_call></think>', TurnKind.NONE, 0),
        ('<think>hm <tool_call>["a"]</tool_call>', TurnKind.MALFORMED, 1),
        ('<answer>["a"]</answer><tool_call>["b"]</tool_call>', TurnKind.SEARCH, 1),
        ('<tool_call>["b"]</tool_call><answer>["a"]</answer>', TurnKind.ANSWER, 0),
        ('<tool_call>["<answer>"]</tool_call>', TurnKind.SEARCH, 1),
        ("hello", TurnKind.NONE, 0),
        ("", TurnKind.NONE, 0),
        ("<answer>[</answer>", TurnKind.ANSWER, 0),
    ],
)
def test_spader_turns(text: str, kind: TurnKind, calls: int) -> None:
    action = read(text)
    assert (action.kind, action.calls) == (kind, calls)
    if kind is TurnKind.MALFORMED:
        assert action.message and not action.queries


@pytest.mark.parametrize(
    "content",
    [
        '["q"]',
        '{"name": "search", "arguments": {"query_list": ["q"]}}',
        '{"name": "search", "arguments": {"queries": ["q"]}}',
        '{"name": "search", "arguments": {"query": "q"}}',
        '{"name": "search", "parameters": {"query_list": ["q"]}}',
        '{"arguments": "{\\"query_list\\": [\\"q\\"]}"}',
        '```json\n["q"]\n```',
        "['q',]",
    ],
)
def test_forms_of_a_call(content: str) -> None:
    assert read(f"<tool_call>{content}</tool_call>").queries == ("q",)


@pytest.mark.parametrize(
    "content",
    ["", "[]", '["  "]', "{}", '{"arguments": 7}', '{"arguments": "{"}', "null", "q", "[" * 9999],
)
def test_calls_that_cannot_be_read_say_how_to_write_them(content: str) -> None:
    action = read(f"<tool_call>{content}</tool_call>")
    assert action.kind is TurnKind.MALFORMED
    assert action.message and '<tool_call>["' in action.message


def test_a_turn_has_a_limit_of_queries() -> None:
    most = json.dumps([str(n) for n in range(MAX_QUERIES)])
    assert len(read(f"<tool_call>{most}</tool_call>").queries) == MAX_QUERIES
    more = read(f'<tool_call>{most}</tool_call><tool_call>["x"]</tool_call>')
    assert more.kind is TurnKind.MALFORMED and str(MAX_QUERIES) in (more.message or "")


def test_half_characters_can_be_sent() -> None:
    (query,) = read('<tool_call>["\\ud83d"]</tool_call>').queries
    assert query.encode() and json.dumps(query)


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ('<tool_call>["[5] Oslo", "[0]  Norway"]</tool_call>', ("Oslo", "Norway")),
        ('<tool_call>["Oslo [5]"]</tool_call>', ("Oslo [5]",)),
        ('<tool_call>["[5] [6] Oslo"]</tool_call>', ("[6] Oslo",)),
        ('<tool_call>["[x] Oslo"]</tool_call>', ("[x] Oslo",)),
    ],
)
def test_sources_are_taken_off_queries(text: str, queries: tuple[str, ...]) -> None:
    assert read(text, "spader_cited").queries == queries
    assert read(text).queries != queries or "[5] Oslo" not in text


def test_sources_are_taken_off_answers() -> None:
    action = read('<answer>["[1] Oslo", "Bergen", "[2] "]</answer>', "spader_cited")
    assert action.answer == ["Oslo", "Bergen"]
    assert read('<tool_call>["[1]"]</tool_call>', "spader_cited").kind is TurnKind.MALFORMED


@pytest.mark.parametrize(
    ("text", "kind", "queries"),
    [
        ("<think>x</think><search> Oslo </search>", TurnKind.SEARCH, ("Oslo",)),
        ("<search>a</search><search>b</search>", TurnKind.SEARCH, ("a", "b")),
        ("<search>  </search>", TurnKind.MALFORMED, ()),
        ("<search>a", TurnKind.MALFORMED, ()),
        ("<think><search>a</search>", TurnKind.MALFORMED, ()),
        ("<think><search>a</search></think>", TurnKind.NONE, ()),
        ("<answer>Oslo</answer>", TurnKind.ANSWER, ()),
        ('<tool_call>["a"]</tool_call>', TurnKind.NONE, ()),
    ],
)
def test_search_r1_turns(text: str, kind: TurnKind, queries: tuple[str, ...]) -> None:
    action = read(text, "search_r1")
    assert (action.kind, action.queries) == (kind, queries)


def test_observations_name_the_query_and_number_the_documents() -> None:
    text = protocol().observation(["a", "b"], [[OSLO], [BERGEN]], 7, ["A note."])
    assert text == (
        'Results for "a":\n[1] Oslo\nCapital of Norway.\n\n'
        'Results for "b":\n[2] Bergen\nRain.\n\nA note.'
    )


def test_cited_observations_go_on_counting() -> None:
    text = protocol("spader_cited").observation(["a", "b"], [[OSLO], [BERGEN]], 7, ["A note."])
    assert text == "[7] Oslo\nCapital of Norway.\n[8] Bergen\nRain.\nA note."


def test_search_r1_observations_stand_in_the_turn() -> None:
    text = protocol("search_r1").observation(["a"], [[OSLO]])
    assert text == ('\n\n<information>Doc 1(Title: "Oslo") Capital of Norway.</information>\n\n')


@pytest.mark.parametrize("name", ["spader", "spader_cited", "search_r1"])
def test_nothing_found_and_errors_are_said(name: str) -> None:
    one = protocol(name)
    assert "No results." in one.observation(["a"], [[]])
    assert "Error: Oops." in one.error_observation("Oops.")
    assert one.error_observation(None, [one.answer_now]).strip("\n").count("\n") == 0
    assert any("Which?" in m["content"] for m in one.messages("Which?"))


def test_prompt_files_replace_the_prompt(tmp_path: Path) -> None:
    text, system, chat = (tmp_path / n for n in ("user.txt", "system.txt", "chat.json"))
    text.write_text("Q: {question} {braces}\n", "utf-8")
    system.write_text("Be brief.", "utf-8")
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "<{question}>"}]
    chat.write_text(json.dumps(turns), "utf-8")
    user = {"role": "user", "content": "Why?"}
    assert protocol(prompt_file=str(text)).messages("Why?") == [
        {"role": "user", "content": "Q: Why? {braces}"}
    ]
    assert protocol(prompt_file=str(system)).messages("Why?") == [
        {"role": "system", "content": "Be brief."},
        user,
    ]
    assert protocol(prompt_file=str(chat)).messages("Why?") == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "<Why?>"},
    ]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"{", b'[{"role": "user"}]', b"[]"])
def test_prompt_files_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "prompt.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"agent\.prompt_file"):
        protocol(prompt_file=str(path))
