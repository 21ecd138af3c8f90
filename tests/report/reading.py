"""Pages as a browser reads them, by html5lib, and what every page must keep to."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from itertools import pairwise
from xml.etree.ElementTree import Element

import html5lib
import tinycss2

# Attributes by which an element would fetch something or run something.
_FETCHING = ("src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href")
_OPENS = {"form", "iframe", "object", "embed", "link", "base", "img", "video", "audio", "input"}


def parse(html: str) -> Element:
    """The tree; raises html5lib's ParseError for anything that is not valid HTML5 syntax."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree: Element = parser.parse(html)
    return tree


def text_of(element: Element) -> str:
    """All text inside."""
    return "".join(element.itertext())


def check_alone(tree: Element) -> None:
    """Nothing is fetched, nothing but the page's own script runs."""
    for element in tree.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag not in _OPENS, f"<{element.tag}>"
        for name, value in element.attrib.items():
            assert name not in _FETCHING, f"{element.tag} {name}={value}"
            assert not name.startswith("on"), f"{element.tag} {name}={value}"
            assert name != "style", "a style attribute is against the page's own policy"
            if name == "href":
                assert value.startswith("#"), value
    [style] = tree.iter("style")
    _check_style(style.text or "")
    [script] = tree.iter("script")
    policy = next(m.attrib["content"] for m in tree.iter("meta") if "http-equiv" in m.attrib)
    assert "default-src 'none'" in policy
    for kind, element in (("style", style), ("script", script)):
        digest = hashlib.sha256((element.text or "").encode()).digest()
        assert f"{kind}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy


def _check_style(css: str) -> None:
    assert "@import" not in css
    assert "@font-face" not in css
    for token in _tokens(tinycss2.parse_component_value_list(css)):
        assert token.type not in ("url", "error"), token.serialize()
        assert not (token.type == "function" and token.lower_name in ("url", "image-set"))


def _tokens(found: list[object]) -> list[object]:
    flat = []
    for token in found:
        flat.append(token)
        inner = getattr(token, "content", None) or getattr(token, "arguments", None) or []
        flat += _tokens(inner if isinstance(inner, list) else [])
    return flat


def check_reachable(tree: Element) -> None:
    """What a screen reader and a keyboard need: names, headings in order, cells with headings."""
    [html] = [tree] if tree.tag == "html" else tree.iter("html")
    assert html.attrib["lang"] == "en"
    ids = Counter(e.attrib["id"] for e in tree.iter() if "id" in e.attrib)
    assert not [name for name, n in ids.items() if n > 1]
    for tag in ("header", "nav", "main", "footer"):
        assert len(list(tree.iter(tag))) == 1
    for element in tree.iter():
        for name in ("aria-labelledby", "aria-describedby"):
            for wanted in element.attrib.get(name, "").split():
                assert wanted in ids, wanted
        if element.tag == "a":
            assert element.attrib["href"][1:] in ids
    _check_headings(tree)
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


def _check_headings(tree: Element) -> None:
    levels = [int(e.tag[1]) for e in tree.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def check_figures(tree: Element, stamp: str) -> int:
    """Every figure has a name, a description, its stamp outside and inside, a table; how many."""
    figures = list(tree.iter("figure"))
    for figure in figures:
        [plot] = [svg for svg in _all(figure, "svg") if svg.attrib.get("class") == "plot"]
        assert plot.attrib["aria-labelledby"] == f"{figure.attrib['id']}-title"
        assert plot.attrib["aria-describedby"] == f"{figure.attrib['id']}-words"
        assert stamp in text_of(figure.find("figcaption"))
        assert any(stamp in text_of(text) for text in _all(plot, "text"))
        assert figure.find("details") is not None
        assert list(figure.iter("tbody"))
    return len(figures)


def _all(element: Element, tag: str) -> list[Element]:
    """SVG elements have a namespace, which html5lib keeps."""
    return [e for e in element.iter() if str(e.tag).rpartition("}")[2] == tag]
