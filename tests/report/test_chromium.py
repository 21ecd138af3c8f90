"""The page as a reader has it: in Chromium, from a file, light and dark, narrow, on paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from test_page import content as made_content

from rccltune.report import page as pages
from rccltune.report.contents import SessionContents

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: the index may not have it"
)
pytestmark = pytest.mark.chromium

# Playwright may not be installed, and so cannot be asked for its types.
Browser = Any
Handle = Any
_HOSTILE = '</title><script>document.title="taken"</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    found = browsers.find()
    if isinstance(found, str):
        pytest.skip(found)
    program, environment = found
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=program, env=environment, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(
    scope="module", params=["h200x4-nccl-2.28.9", pytest.param("CPX", marks=pytest.mark.long)]
)
def written(
    request: pytest.FixtureRequest,
    shown: Callable[[str], SessionContents],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The page of a sweep of five collectives, and of AMD's published table."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(pages.render(pages.context(shown(request.param))), encoding="utf-8")
    return path


class Opened:
    """A page in the browser, with all that it said and asked for."""

    def __init__(self, browser: Browser, path: Path, **options: object) -> None:
        """Open a file."""
        self.said: list[str] = []
        self.asked: list[str] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Handle:
        """The page."""
        return self.page

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.context.close()


def unfold(page: Handle) -> None:
    """Open every fold."""
    for fold in page.query_selector_all("details"):
        fold.evaluate("e => { e.open = true; }")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_an_error_or_a_request_and_shows_its_figures(
    browser: Browser, written: Path, scheme: str
) -> None:
    """Both colour schemes; ink and page are as dark as the screen wants them."""
    opened = Opened(browser, written, color_scheme=scheme)
    with opened as page:
        unfold(page)
        boxes = [plot.bounding_box() for plot in page.query_selector_all("figure svg")]
        assert len(boxes) >= 5
        assert all(box["width"] > 250 and box["height"] > 120 for box in boxes)

        def brightness(what: str) -> int:
            colour = page.evaluate(what)
            return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

        paper = brightness("getComputedStyle(document.body).backgroundColor")
        ink = brightness("getComputedStyle(document.querySelector('figure text')).fill")
        assert (paper > 3 * 128) == (scheme == "light")
        assert (ink > 3 * 128) == (scheme == "dark")
    assert opened.said == []
    assert opened.asked == [written.as_uri()]


def test_the_first_screen_has_claim_figure_rules_and_what_to_do(
    browser: Browser, written: Path
) -> None:
    """At 1280 by 900: everything that is not folded but the headings of the folds."""
    with Opened(browser, written, viewport={"width": 1280, "height": 900}) as page:
        for selector in (
            "h1",
            ".headline",
            "figure >> nth=0",
            "#first table >> nth=0",
            "#first pre",
        ):
            box = page.locator(selector).first.bounding_box()
            assert box["y"] + box["height"] <= 900, selector


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_nothing_is_cut_off(browser: Browser, written: Path, width: int) -> None:
    """A phone, folds open: nothing is wider than the window, no figure is cut, no cell is lost."""
    with Opened(browser, written, viewport={"width": width, "height": 800}) as page:
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        edges = page.evaluate(
            """[...document.querySelectorAll("figure svg, td, tbody th, pre")].map(e => {
                const box = e.getBoundingClientRect(); return [box.left, box.right]; })"""
        )
        assert edges
        assert all(left >= 0 and right <= width for left, right in edges)


@pytest.mark.long
def test_a_keyboard_opens_a_fold(browser: Browser, written: Path) -> None:
    """By Tab and Enter, and what has the focus is seen."""
    with Opened(browser, written) as page:
        fold = page.locator("summary").first
        fold.focus()
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 1
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(style) != "none"


@pytest.mark.long
def test_what_logs_say_does_nothing(browser: Browser, tmp_path: Path) -> None:
    """Markup in every text of the page: no dialog, no title but the page's own, no request."""
    path = tmp_path / "hostile.html"
    path.write_text(pages.render(made_content(_HOSTILE)), encoding="utf-8")
    opened = Opened(browser, path)
    with opened as page:
        assert page.title() == _HOSTILE
        assert page.locator("img").count() == 0
    assert opened.said == []
    assert opened.asked == [path.as_uri()]


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser: Browser, written: Path, width: int) -> None:
    """Deque's axe-core, all rules of WCAG 2.2 A and AA and best practices, in both schemes."""
    library = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe here")
    for scheme in ("light", "dark"):
        # The page's own policy forbids even this script.
        options = {"color_scheme": scheme, "bypass_csp": True}
        with Opened(browser, written, viewport={"width": width, "height": 800}, **options) as page:
            unfold(page)
            found = library.Axe().run(page)
            said = [(v["id"], v["nodes"][0]["html"][:120]) for v in found.response["violations"]]
            assert said == []
            assert len(found.response["passes"]) > 15
