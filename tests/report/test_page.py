"""A page is one valid HTML file that fetches nothing and says what it was given, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tinycss2
from hypothesis import given
from hypothesis import strategies as st
from reading import check_alone, check_figures, check_page, check_reachable, parse, text_of

from rccltune.model.estimate import Estimate
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.vocabulary import Placement
from rccltune.report import page, style, words
from rccltune.report.contents import SessionContents
from rccltune.verify.verdict_file import VerdictFile
from rccltune.verify.verifications import Verification

FILES = Path(page.__file__).parent / "files"
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


def content(text: str) -> dict[str, Any]:
    """A page that has everything, with a text in every place."""
    block = {"rows": [(text, text, text)], "more": 2}
    names = ("collective", "ranks", "sizes", "setting", "gain", "least", "proof")
    row = dict.fromkeys(names, text)
    rules = {"name": text, "needs": text, "several": True}
    rules |= {"rows": [row], "more": 1, "source": text}
    return {
        **dict.fromkeys(("title", "where", "headline", "following", "subject", "footer"), text),
        "marks": [(text, text)],
        "first": [],
        "rules": [rules],
        "old": [text],
        "use": [text],
        "others": [rules],
        "left": {"rows": [(text,) * 5], "more": 0},
        "sizes": {"rows": [(text,) * 6], "more": 0},
        "not_chosen": block,
        "notices": block,
        "figures": [(text, [])],
        "facts": [(text, text, text)],
        "method": [text],
        "files": [(text, text)],
        "texts": [(text, text)],
    }


@pytest.mark.parametrize(
    ("session", "n_figures"), [("CPX", 5), ("one setting", 3), ("nothing to win", 4)]
)
def test_a_page_is_valid_alone_small_and_reachable(
    shown: Callable[[str], SessionContents], session: str, n_figures: int
) -> None:
    """By html5lib's strict parser, the page's own policy, and what a screen reader needs."""
    tree = check_page(page.render(page.context(shown(session))))
    assert check_figures(tree) == n_figures


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_wherever_it_stands(text: str) -> None:
    """Logs, hosts and file names are other people's: no element, attribute or script is theirs."""
    plain = parse(page.render(content("plain")))
    tree = parse(page.render(content(text)))
    check_alone(tree)
    check_reachable(tree)

    def tags(element: Any) -> list[str]:  # noqa: ANN401 - html5lib has no types
        # A place to break a long path may come with a text.
        return [str(e.tag) for e in element.iter() if e.tag != "wbr"]

    assert tags(tree) == tags(plain)


@given(st.text(max_size=60))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """But for what HTML has no character for, which shows as the replacement character."""
    tree = parse(page.render(content(text)))
    check_alone(tree)
    said = "".join(text_of(next(tree.iter("h2"))).split())
    for one in "".join(text.split()):
        assert one in said or "\ufffd" in said


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


def _properties(declarations: object) -> dict[str, str]:
    declared = tinycss2.parse_declaration_list(declarations, True, True)
    return {
        d.name: tinycss2.serialize(d.value).strip() for d in declared if d.name.startswith("--")
    }


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_on_a_light_and_a_dark_page(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, also on a rule's bar and a table's cell; 3 for what is drawn."""
    known = colours()[scheme]
    for text in ("--text", "--soft", "--bad"):
        assert contrast(known[text], known["--paper"]) >= 4.5, text
    assert contrast(known["--text"], known["--card"]) >= 4.5
    assert contrast(known["--focus"], known["--paper"]) >= 3
    for ink in (*style.SHADES, style.GREY):
        assert contrast(ink, known["--paper"]) >= 3, ink
    for ink in style.SHADES:
        assert contrast(known["--text"], mixed(ink, known["--paper"], 0.35)) >= 4.5, ink
    cell = mixed(style.LIKELY, known["--paper"], 0.62)
    assert contrast(known["--text"], cell) >= 4.5


def test_both_schemes_have_the_same_colours() -> None:
    """One that is missing in the dark would be dark on dark."""
    known = colours()
    assert set(known["light"]) == set(known["dark"])


def test_the_style_is_a_few_kilobytes() -> None:
    """No framework, and no script at all."""
    assert (FILES / "page.css").stat().st_size < 6_000
    assert {path.name for path in FILES.iterdir()} == {"page.css", "page.html"}


def test_the_headline_counts_the_rules_that_it_does_not_speak_of(
    shown: Callable[[str], SessionContents],
) -> None:
    """Somebody added a rule to the file: what it gains nobody knows."""
    one = shown("holes")
    [file, *_] = one.files
    odd = replace(file.rules[0], n_ranks=None)
    said = words.headline(one)
    more = replace(one, files=(replace(file, rules=(*file.rules, odd)),))
    assert words.headline(more) == f"{said} 1 more rule is not of the choice."
    more = replace(one, files=(replace(file, rules=(*file.rules, odd, odd)),))
    assert words.headline(more) == f"{said} 2 more rules are not of the choice."


def test_rules_with_ll128_are_of_the_choice(shown: Callable[[str], SessionContents]) -> None:
    """A table that has LL128 of gfx942 gives one file, whose needs say with what."""
    one = shown("CPX")
    [file] = one.files
    assert file.rules
    assert all(one.zone_of(rule) is not None for rule in file.rules)
    assert any("ll128" in str(rule.setting) for rule in file.rules)
    assert "not of the stored choice" not in str([words.proof(o, file, one) for o in file.rules])


@pytest.mark.usefixtures("undrawn")
def test_the_table_of_sizes_marks_those_without_a_rule(
    shown: Callable[[str], SessionContents],
) -> None:
    """Both sides made the same calls there, and nobody should look for the rule's part in it."""
    one = shown("holes")
    [file, *_] = one.files
    rule = file.rules[0]
    target = next(iter(one.zones)).target

    def at(nbytes: int) -> SizeVerdict:
        return SizeVerdict(
            collective=target.collective,
            placement=Placement.IN_PLACE,
            timing="loop",
            nbytes=nbytes,
            baseline_us=1.0,
            tuned_us=1.0,
            gain=Estimate(value=0.97, low=0.9, high=1.05, n=8),
            n_wrong=0,
            verdict=Verdict.UNDECIDED,
        )

    sizes = [1 << power for power in range(10, 30)]
    ruled = [n for n in sizes if any(r.reaches(n) for r in file.rules)]
    said = VerdictFile(
        path=file.name,
        simulated=False,
        scale=target.scale,
        rank_placement="node",
        dtype="float",
        op="sum",
        rules_before=1,
        rules=1,
        fallbacks=0,
        replicates=8,
        processes=2,
        seconds=3.0,
        rules_sha256="",
        verdicts=tuple(map(at, sizes)),
        standings=(),
        cuts=(),
        needs={},
    )
    verification = Verification(file=said, name=file.name, is_current=True)
    more = replace(one, files=(replace(file, verification=verification),))
    rows = page.context(more)["sizes"]["rows"]
    assert rule.collective is target.collective
    assert 0 < len(ruled) < len(sizes)
    # "Not faster" or whatever another table says of it is not contradicted here.
    assert [row[4] for row in rows] == ["undecided" if n in ruled else "no rule" for n in sizes]
    worse = tuple(replace(one, verdict=Verdict.SLOWER) for one in said.verdicts)
    verification = replace(verification, file=replace(said, verdicts=worse))
    harmed = replace(one, files=(replace(file, verification=verification),))
    rows = page.context(harmed)["sizes"]["rows"]
    assert [row[4] for row in rows] == [
        "slower" if n in ruled else "slower, no rule" for n in sizes
    ]
