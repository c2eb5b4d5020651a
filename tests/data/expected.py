"""What the converters make of the files in `files/`."""

from __future__ import annotations

SHAPE, QUESTION, ANSWERS = "answers of a wrong shape", "no question", "no answers"

# rows in, rows out, broken, left out, answers left out of rows kept
EXPECTED: dict[str, tuple[int, int, dict[str, int], dict[str, int], dict[str, int]]] = {
    "qampari.jsonl": (
        12, 6, {"unreadable": 2, QUESTION: 1, SHAPE: 1}, {ANSWERS: 2},
        {"repeats another answer": 1, "no usable name": 3},
    ),
    "quest.jsonl": (
        7, 3, {QUESTION: 1, SHAPE: 1}, {ANSWERS: 2},
        {"repeats another answer": 1, "no usable name": 1},
    ),
    "mintaka.json": (
        12, 4, {"unreadable": 1, QUESTION: 1},
        {"no linked answer": 1, ANSWERS: 1}
        | {f"answers of type {name}": 1 for name in ("numerical", "boolean", "date", "unknown")},
        {"no English label": 1},
    ),
    "webqsp.json": (
        10, 4, {QUESTION: 1, SHAPE: 1}, {"no good and complete parse": 3, ANSWERS: 1},
        {"not an object": 1},
    ),
    "search_r1.jsonl": (9, 5, {QUESTION: 1, SHAPE: 1}, {ANSWERS: 2}, {}),
    "spader.jsonl": (10, 6, {QUESTION: 1, SHAPE: 1}, {ANSWERS: 2}, {"no usable name": 3}),
}  # fmt: skip

# aliases left out of answers kept, remarks, rows that repeat a question, sources
REST: dict[str, tuple[dict[str, int], dict[str, int], int, dict[str, int]]] = {
    "qampari.jsonl": (
        {"repeats another alias": 1, "no letter or digit": 1, "not text": 1},
        {}, 1, {"qampari": 6},
    ),
    "quest.jsonl": ({}, {}, 0, {"quest": 3}),
    "mintaka.json": ({}, {}, 0, {"mintaka": 4}),
    "webqsp.json": ({}, {"known by its Freebase id only": 1}, 0, {"webqsp": 4}),
    "search_r1.jsonl": (
        {"repeats another alias": 1, "no letter or digit": 2}, {}, 0,
        {"nq": 3, "hotpotqa": 1, "search_r1": 1},
    ),
    "spader.jsonl": (
        {}, {}, 0, {"qampari": 2, "quest": 1, "webqsp": 1, "spader": 1, "mintaka": 1},
    ),
}  # fmt: skip

LABELS: dict[str, list[list[list[str]]]] = {
    "qampari.jsonl": [
        [["Per Holm", "P. Holm"], ["Ana Ruiz", "Ruiz, Ana"]],
        [["Tana"], ["Alta", "Alta River"]],
        [["1816", "Eighteen sixteen"], ["1783"]],
        [["Tana"]],
        [["Sm?"]],
        [["Alta", "Alta River"], ["Tana"]],
    ],
    "quest.jsonl": [
        [["Winter Night (1966 film)", "Winter Night"], ["Hunger"]],
        [["Ophrys cretica"]],
        [["(untitled)"], ["Brackets (novel) (2nd ed.)", "Brackets (novel)"]],
    ],
    "mintaka.json": [
        [["Knut Hamsun"]],
        [["Ana Ivanovic"], ["Rafael Nadal"]],
        [["Five"]],
        [["Semper idem"]],
    ],
    "webqsp.json": [[["Ada Berg"], ["Bo Dahl"], ["1901-05-02"]], [["m.0abc"]], [["42"]], [["7"]]],
    "search_r1.jsonl": [
        [["Ida Lund", "Ida Marie Lund"]],
        [["Oslo"]],
        [["Bergen"]],
        [["Ida Lund", "Lund"], ["Bo Dahl"]],
        [["Moss"]],
    ],
    "spader.jsonl": [
        [["Karasjok", "Kárášjohka"], ["Tana"]],
        [["Per Holm", "P. Holm"], ["Ana Ruiz"]],
        [["Moss"], ["Alta"]],
        [["Moss"]],
        [["Moss", "Mos"]],
        [["1816"]],
    ],
}
