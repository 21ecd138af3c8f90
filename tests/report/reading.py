"""Pages as a browser reads them, by html5lib, and what every page must keep to."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element

import html5lib
import tinycss2

# Attributes by which an element would fetch something or run something.
_FETCHING = ("src", "srcset", "data", "poster", "action", "formaction", "background")
_OPENS = {
    *("form", "iframe", "object", "embed", "link", "base", "img", "video", "audio", "input"),
    "script",
}
# What a page may have: words outside pictures and without numbers, and bytes.
MOST_WORDS = 1_500
MOST_NBYTES = 700_000


def parse(html: str) -> Element:
    """The tree; raises html5lib's ParseError for anything that is not valid HTML5 syntax."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree: Element = parser.parse(html)
    return tree


def text_of(element: Element) -> str:
    """All text inside, that of pictures left out."""
    return "".join(_texts(element))


def _texts(element: Element, *, without_numbers: bool = False) -> Iterator[str]:
    if is_called(element, "svg") or is_called(element, "style"):
        return
    is_number = element.tag == "td" and (element.text or "")[:1].isdigit()
    if is_number and without_numbers:
        return
    yield element.text or ""
    for inner in element:
        yield from _texts(inner, without_numbers=without_numbers)
        yield inner.tail or ""


def is_called(element: Element, tag: str) -> bool:
    """Whether an element has a tag; those of SVG have a namespace, which html5lib keeps."""
    return str(element.tag).rpartition("}")[2] == tag


def words_of(tree: Element) -> int:
    """Words of a page: pictures aside, and cells of tables that are numbers with their units."""
    [body] = tree.iter("body")
    spaced = " ".join(_texts(body, without_numbers=True))
    return sum(bool(re.search("[^\\W\\d_]", word)) for word in spaced.split())


def check_page(html: str) -> Element:
    """All that a page must keep to; its tree."""
    tree = parse(html)
    check_alone(tree)
    check_reachable(tree)
    assert words_of(tree) <= MOST_WORDS
    assert len(html.encode()) <= MOST_NBYTES
    return tree


def check_alone(tree: Element) -> None:
    """Nothing is fetched, and no script runs."""
    for element in tree.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag not in _OPENS, f"<{element.tag}>"
        for name, value in element.attrib.items():
            key = str(name).rpartition("}")[2]
            assert key not in _FETCHING, f"{element.tag} {name}={value}"
            assert not key.startswith("on"), f"{element.tag} {name}={value}"
            assert key != "style", "a style attribute is against the page's own policy"
            if key == "href" or key.endswith(":href"):
                assert value.startswith("#"), value
    [style] = tree.iter("style")
    _check_style(style.text or "")
    policy = next(m.attrib["content"] for m in tree.iter("meta") if "http-equiv" in m.attrib)
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    digest = hashlib.sha256((style.text or "").encode()).digest()
    assert f"style-src 'sha256-{base64.b64encode(digest).decode()}'" in policy


def _check_style(text: str) -> None:
    """Style is valid, and fetches nothing."""
    for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
        assert rule.type != "error", rule
        assert "url(" not in tinycss2.serialize([rule])
        assert "@import" not in tinycss2.serialize([rule])


def check_reachable(tree: Element) -> None:
    """What a screen reader and a keyboard need: names, headings in order, cells with headings."""
    [html] = [tree] if tree.tag == "html" else tree.iter("html")
    assert html.attrib["lang"] == "en"
    ids = Counter(e.attrib["id"] for e in tree.iter() if "id" in e.attrib)
    assert not [name for name, n in ids.items() if n > 1]
    for tag in ("header", "main", "footer"):
        assert len(list(tree.iter(tag))) == 1
    for element in tree.iter():
        for wanted in element.attrib.get("aria-labelledby", "").split():
            assert wanted in ids, wanted
    levels = [int(e.tag[1]) for e in tree.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for table in tree.iter("table"):
        assert table.find("caption") is not None
        assert all(th.attrib.get("scope") in ("col", "row") for th in table.iter("th"))
        columns = len(list(table.find("thead").iter("th")))
        for row in table.find("tbody").iter("tr"):
            assert len(row) == columns
            assert row[0].tag == "th"
    for details in tree.iter("details"):
        assert details[0].tag == "summary"
        assert text_of(details[0]).strip()


def check_figures(tree: Element, *, simulated: bool = False) -> int:
    """Every figure has a name, and says in the picture where it is simulated; how many."""
    figures = list(tree.iter("figure"))
    for figure in figures:
        [plot] = [e for e in figure.iter() if is_called(e, "svg")]
        assert plot.attrib["role"] == "img"
        assert plot.attrib["aria-label"]
        said = " ".join("".join(e.itertext()) for e in plot.iter() if is_called(e, "text"))
        assert ("SIMULATED" in said) == simulated
    return len(figures)
