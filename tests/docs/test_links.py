"""Links between pages lead somewhere, anchors included; Sphinx looks at those within the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.pages import name, pages, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Names of a page's headings, as GitHub and the site make them."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.findall(prose(page.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen = found.get(slug, 0)
        names.add(f"{slug}-{seen}" if seen else slug)
        found[slug] = seen + 1
    return names


def dead_links(page: Path) -> list[str]:
    """Targets that are not there; other sites are not asked."""
    dead = []
    for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](#a-b-c) [y](#gone) [z](no.md) ![p](no.png) [w](page.md#x)\n")
    assert dead_links(page) == ["#gone", "no.md", "no.png", "page.md#x"]
