"""A page is one valid HTML file that fetches nothing and says what it was given, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tinycss2
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import page
from reading import check_alone, check_figures, check_reachable, parse, text_of

from rccltune.report import session
from rccltune.report.records import Axis, Column, Table

FILES = Path(session.__file__).parent / "files"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></script></title></textarea><b>",
    "]]><!-- --!> <!--",
    "&lt;b&gt; &amp; &#0; &copy",
    "{{ 7 * 7 }} {% raw %} ${x}",
    "javascript:alert(1)",
    "nul \x00 bell \x07 escape \x1b[31m delete \x7f",
    "turned \u202egnirts\u202c \u2066x\u2069",
    "lone \ud800 surrogate \ufffe",
    "/".join(["a" * 300] * 4),
)


def test_a_page_is_valid_alone_and_reachable() -> None:
    """By html5lib's strict parser, the page's own policy, and what a screen reader needs."""
    tree = parse(session.render(page()))
    check_alone(tree)
    check_reachable(tree)
    assert check_figures(tree, "SIMULATED all_reduce") == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_wherever_it_stands(text: str) -> None:
    """Logs, hosts and file names are other people's: no element, attribute or script is theirs."""
    plain = parse(session.render(page("plain")))
    tree = parse(session.render(page(text)))
    check_alone(tree)
    check_reachable(tree)

    def tags(element: object) -> list[str]:
        # A place to break a long path, and what has no room on a figure, may come with a text.
        found = [e for e in element.iter() if e.attrib.get("class") != "keys"]  # type: ignore[attr-defined] # html5lib has no types
        return [str(e.tag) for e in found if e.tag != "wbr"]

    shape = [tag for tag in tags(tree) if not tag.endswith("}text")]
    assert shape == [tag for tag in tags(plain) if not tag.endswith("}text")]


@given(st.text(max_size=60))
@settings(max_examples=60)
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """But for what HTML has no character for, which shows as the replacement character."""
    tree = parse(session.render(page(text)))
    check_alone(tree)
    shown = text_of(next(e for e in tree.iter() if e.attrib.get("class") == "claim"))
    said = "".join(shown.split())
    for one in "".join(text.split()):
        assert one in said or "\ufffd" in said


def test_a_page_needs_no_script() -> None:
    """Every value of a figure stands in its table, and no element is hidden without the script."""
    html = session.render(page())
    without = re.sub("<script>.*?</script>", "", html, flags=re.DOTALL)
    tree = parse(without)
    assert "1.0" in {text_of(e) for e in tree.iter("td")}
    assert not [e for e in tree.iter() if "hidden" in e.attrib]


def test_the_script_is_a_few_kilobytes() -> None:
    """No framework."""
    assert (FILES / "page.js").stat().st_size < 12_500
    assert (FILES / "page.css").stat().st_size < 12_000


def test_the_same_records_give_the_same_bytes() -> None:
    """So that a page can be compared with the one of last week."""
    assert session.render(page()) == session.render(page())


def test_a_row_must_have_a_cell_for_each_column() -> None:
    """A table that is one off would put figures under other headings."""
    with pytest.raises(ValueError, match="2 cells under 1 columns"):
        Table(caption="x", columns=(Column(name="a"),), rows=(("1", "2"),))


@pytest.mark.parametrize(
    ("low", "high", "logarithmic"), [(2, 1, True), (1, 1, False), (0, 1, True)]
)
def test_an_axis_has_a_length(low: float, high: float, logarithmic: bool) -> None:
    """A logarithmic one begins above nought."""
    with pytest.raises(ValueError, match="reach"):
        Axis(label="x", low=low, high=high, ticks=(), logarithmic=logarithmic)


def colours() -> dict[str, dict[str, str]]:
    """The custom properties of the light page and of the dark one."""
    found: dict[str, dict[str, str]] = {}
    rules = tinycss2.parse_stylesheet((FILES / "page.css").read_text(), True, True)
    for rule in rules:
        if rule.type == "qualified-rule" and tinycss2.serialize(rule.prelude).strip() == ":root":
            found["light"] = _properties(rule.content)
        if rule.type == "at-rule" and "dark" in tinycss2.serialize(rule.prelude):
            [inner] = tinycss2.parse_rule_list(rule.content, True, True)
            found["dark"] = _properties(inner.content)
    return found


def _properties(content: object) -> dict[str, str]:
    declared = tinycss2.parse_declaration_list(content, True, True)
    return {d.name: tinycss2.serialize(d.value).strip() for d in declared}


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance of sRGB."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def mixed(ink: str, paper: str, share: float) -> str:
    """What a colour of some opacity looks like on another."""
    pairs = [(int(ink[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


INKS = ("ll", "ll128", "simple", "site", "grey", "p1", "p2", "p3", "p4", "p5", "p6")


def test_contrast_is_computed_as_wcag_does() -> None:
    """Black on white is 21; #767676 on white is the known grey of 4.54."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_on_a_light_and_a_dark_page(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what is drawn and for the focus."""
    known = colours()[scheme]
    for text in ("--text", "--soft", "--link", "--bad"):
        assert contrast(known[text], known["--paper"]) >= 4.5, text
        assert contrast(known[text], known["--card"]) >= 4.5, text
    assert contrast(known["--warn-text"], known["--warn-paper"]) >= 4.5
    assert contrast(known["--focus"], known["--paper"]) >= 3
    for ink in INKS:
        assert contrast(known[f"--{ink}"], known["--paper"]) >= 3, ink
        # A band's name on its tint.
        tint = mixed(known[f"--{ink}"], known["--paper"], 0.2)
        assert contrast(known["--text"], tint) >= 4.5, ink


def test_both_schemes_have_the_same_colours() -> None:
    """One that is missing in the dark would be dark on dark."""
    known = colours()
    assert set(known["light"]) == set(known["dark"])
