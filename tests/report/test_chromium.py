"""The page as a reader has it: in Chromium, from a file, by pointer, by keyboard, on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from pages import page as made_page

from rccltune.cli import run
from rccltune.report import session

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


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The page of AMD's published table against ring/simple."""
    folder = tmp_path_factory.mktemp("session")
    table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    session = str(folder / "s")
    assert run(["import", str(table), "-o", session, "-q"]) == 0
    assert run(["emit-config", session, "--baseline", "ring/simple", "-q"]) == 0
    path = folder / "report.html"
    assert run(["report", session, "-o", str(path), "-q"]) == 0
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_an_error_or_a_request_and_shows_its_figures(
    browser: Browser, written: Path, scheme: str
) -> None:
    """Both colour schemes; the page is as dark as the screen wants it."""
    opened = Opened(browser, written, color_scheme=scheme)
    with opened as page:
        boxes = [plot.bounding_box() for plot in page.query_selector_all("svg.plot")]
        assert len(boxes) >= 3
        assert all(box["width"] > 300 and box["height"] > 150 for box in boxes)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        parts = [int(part) for part in re.findall(r"\d+", colour)[:3]]
        assert (sum(parts) > 3 * 128) == (scheme == "light")
        ink = page.evaluate("getComputedStyle(document.querySelector('.spot')).stroke")
        assert ink != colour
    assert opened.said == []
    assert opened.asked == [written.as_uri()]


def test_a_value_is_read_off_by_keyboard(browser: Browser, written: Path) -> None:
    """Tab to a figure, arrows along its points and to the next line; each says its value."""
    with Opened(browser, written) as page:
        first = page.locator("#figure-1-speedup svg.plot")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        inside = "document.activeElement.matches('#figure-1-speedup .spot')"
        for _ in range(90):
            page.keyboard.press("Tab")
            if page.evaluate(inside):
                break
        label = "document.activeElement.getAttribute('aria-label')"
        start = page.evaluate(label)
        page.keyboard.press("ArrowRight")
        second = page.evaluate(label)
        assert second != start
        assert re.search(r"\d [KM]?i?B: \d+\.\d\d×", second)
        readout = page.locator("#figure-1-speedup .readout")
        assert readout.inner_text() == second
        page.keyboard.press("Home")
        assert page.evaluate(label) == start
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        last = page.evaluate(label)
        page.keyboard.press("ArrowDown")
        below = page.evaluate(label)
        assert below.partition(",")[0] != last.partition(",")[0]
        assert first.locator(".spot[tabindex='0']").count() == 1
        page.keyboard.press("Escape")
        assert readout.inner_text() != below


@pytest.mark.long
def test_what_has_the_focus_is_seen(browser: Browser, written: Path) -> None:
    """A link, a fold and a point look otherwise with the focus than without."""
    with Opened(browser, written) as page:
        for selector in ("nav a", "summary", ".spot[tabindex='0']"):
            one = page.locator(selector).first
            how = "e => { const s = getComputedStyle(e); return s.outlineStyle + s.strokeWidth; }"
            before = one.evaluate(how)
            page.keyboard.press("Tab")
            one.focus()
            assert one.evaluate(how) != before, selector


@pytest.mark.long
def test_a_value_is_read_off_by_pointer(browser: Browser, written: Path) -> None:
    """Near a point is near enough."""
    with Opened(browser, written) as page:
        plot = page.locator("svg.plot").first
        plot.scroll_into_view_if_needed()
        spot = plot.locator(".spot").first
        box = spot.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2 + 4, box["y"] + box["height"] / 2 + 3)
        said = page.locator("figure").first.locator(".readout").inner_text()
        assert re.search(r"\d [KM]?i?B: \d+\.\d\d×", said)
        beside = plot.locator(".tip").bounding_box()
        assert plot.locator(".tiptext").text_content() == said
        assert abs(beside["x"] - box["x"]) < 40 + beside["width"]
        page.mouse.move(0, 0)
        assert not plot.locator(".tip").is_visible()


def test_a_line_is_hidden_by_its_entry_in_the_legend(browser: Browser, written: Path) -> None:
    """By keyboard as by pointer; what is hidden is not read off either, and comes back."""
    with Opened(browser, written) as page:
        figure = page.locator("#figure-1-speedup")
        entry = figure.get_by_role("button", name="tree/ll", exact=True)
        lines = figure.locator("g.line[data-key='tree/ll']")
        assert entry.get_attribute("aria-pressed") == "true"
        assert lines.first.is_visible()
        entry.focus()
        page.keyboard.press("Enter")
        assert entry.get_attribute("aria-pressed") == "false"
        assert not any(one.is_visible() for one in lines.all())
        figure.locator(".spot[tabindex='0']").focus()
        names = set()
        for _ in range(6):
            names.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
            page.keyboard.press("ArrowDown")
        assert len(names) > 2
        assert not any(name.startswith("tree/ll,") for name in names)
        entry.click()
        assert lines.first.is_visible()


def test_a_part_of_a_figure_is_shown_larger(browser: Browser, written: Path) -> None:
    """Dragged over, or by + at a marker: more ticks, values as before, and back to the whole."""
    with Opened(browser, written) as page:
        figure = page.locator("#figure-1-time")
        figure.scroll_into_view_if_needed()
        box = figure.locator("svg.plot").bounding_box()
        ticks = figure.locator(".tick.x:visible text")
        whole = ticks.all_text_contents()
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.7 * box["height"])
        page.mouse.up()
        part = ticks.all_text_contents()
        assert set(part) - set(whole)
        assert set(whole) - set(part)
        button = figure.get_by_role("button", name="Show the whole figure")
        button.click()
        assert ticks.all_text_contents() == whole
        assert not button.is_visible()
        spot = figure.locator(".spot[tabindex='0']")
        spot.focus()
        said = figure.locator(".readout").inner_text()
        before = spot.bounding_box()["width"]
        page.keyboard.press("+")
        page.keyboard.press("+")
        assert button.is_visible()
        assert figure.locator(".readout").inner_text() == said
        assert abs(spot.bounding_box()["width"] - before) < 0.5
        page.keyboard.press("Escape")
        assert ticks.all_text_contents() == whole


def test_two_fingers_show_a_part_larger(browser: Browser, written: Path) -> None:
    """Spread, the part below them fills the figure; pinched, the whole is back. One finger scrolls."""
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    with Opened(browser, written, **phone) as page:
        figure = page.locator("#figure-1-time")
        figure.locator("svg.plot").scroll_into_view_if_needed()
        box = figure.locator("svg.plot").bounding_box()
        at = [box["x"] + 220, box["y"] + box["height"] / 2]
        ticks = figure.locator(".tick.x:visible text")
        whole = ticks.all_text_contents()
        hand = page.context.new_cdp_session(page)

        def touch(kind: str, *apart: float) -> None:
            places = [{"x": at[0] + s * a, "y": at[1]} for a in apart for s in (-1, 1)]
            hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

        def moved(first: float, last: float) -> None:
            touch("touchStart", first)
            for step in range(1, 5):
                touch("touchMove", first + (last - first) * step / 4)
            touch("touchEnd")

        spots = figure.locator("svg.plot .spot")
        places = "all => all.map(one => one.getBoundingClientRect().x)"
        before = spots.evaluate_all(places)
        moved(20, 60)
        part = ticks.all_text_contents()
        assert set(part) - set(whole)
        after = spots.evaluate_all(places)
        # Three times as far from the middle of the fingers, which stays where it was.
        near = [(b, a) for b, a in zip(before, after, strict=True) if abs(b - at[0]) < 60]
        assert near
        # A marker keeps its width of about 7 pixels, so its edge moves by some of them.
        assert all(abs((a - at[0]) - 3 * (b - at[0])) < 12 for b, a in near)
        moved(60, 10)
        assert ticks.all_text_contents() == whole


def test_a_part_is_shown_larger_by_taps_alone(browser: Browser, written: Path) -> None:
    """Around the marker that was read last; for who has no mouse and one finger, or a switch."""
    with Opened(browser, written, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        figure = page.locator("#figure-1-time")
        ticks = figure.locator(".tick.x:visible text")
        whole = ticks.all_text_contents()
        spot = figure.locator(".spot").nth(2)
        spot.scroll_into_view_if_needed()
        box = spot.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        said = figure.locator(".readout").inner_text()
        figure.get_by_role("button", name="Zoom in").tap()
        assert figure.locator(".readout").inner_text() == said
        assert set(ticks.all_text_contents()) - set(whole)
        figure.get_by_role("button", name="Show the whole figure").tap()
        assert ticks.all_text_contents() == whole


@pytest.mark.long
def test_without_a_script_everything_is_still_there(browser: Browser, written: Path) -> None:
    """Tables unfold by themselves; the markers carry their words."""
    with Opened(browser, written, java_script_enabled=False) as page:
        assert page.locator("svg.plot .spot title").count() > 20
        folded = page.locator("figure details.values").first
        assert not folded.locator("table").is_visible()
        folded.locator("summary").click()
        assert folded.locator("table").is_visible()


@pytest.mark.long
def test_a_narrow_window_cuts_nothing_off(browser: Browser, written: Path) -> None:
    """A phone: nothing is wider than the window but what scrolls in a frame of its own."""
    with Opened(browser, written, viewport={"width": 360, "height": 700}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [390, 1280])
def test_what_scrolls_sideways_says_so(browser: Browser, written: Path, width: int) -> None:
    """Figures and tables alike, unfolded too, and only those that do."""
    with Opened(browser, written, viewport={"width": width, "height": 800}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        boxes = page.evaluate(
            """[...document.querySelectorAll(".wide")].map(e => [
                e.classList.contains("drawing"),
                e.scrollWidth > e.clientWidth,
                e.previousElementSibling.matches(".narrow")
                    && getComputedStyle(e.previousElementSibling).display !== "none"])"""
        )
        assert all(cut == told for _, cut, told in boxes)
        cut = {drawn for drawn, is_cut, _ in boxes if is_cut}
        assert cut == ({True, False} if width == 390 else set())
        assert not all(is_cut for _, is_cut, _ in boxes)


@pytest.mark.long
def test_paper_has_all_pages_with_the_tables_open(browser: Browser, written: Path) -> None:
    """Printing unfolds what is folded, on white whatever the screen is."""
    with Opened(browser, written, color_scheme="dark") as page:
        content = page.pdf(format="A4")
        assert content.startswith(b"%PDF-")
        assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 3
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0


@pytest.mark.long
def test_what_logs_say_does_nothing(browser: Browser, tmp_path: Path) -> None:
    """Markup in every text of the page: no dialog, no title but the page's own, no request."""
    path = tmp_path / "hostile.html"
    path.write_text(session.render(made_page(_HOSTILE)), encoding="utf-8")
    opened = Opened(browser, path)
    with opened as page:
        assert page.title() == _HOSTILE
        assert page.locator("img").count() == 0
    assert opened.said == []
    assert opened.asked == [path.as_uri()]


@pytest.mark.long
def test_axe_finds_nothing(browser: Browser, written: Path) -> None:
    """Deque's axe-core, all rules of WCAG 2.2 A and AA and best practices, in both schemes."""
    library = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe here")
    for scheme in ("light", "dark"):
        # The page's own policy forbids even this script.
        with Opened(browser, written, color_scheme=scheme, bypass_csp=True) as page:
            for fold in page.query_selector_all("details"):
                fold.evaluate("e => { e.open = true; }")
            found = library.Axe().run(page)
            said = [(v["id"], v["nodes"][0]["html"][:120]) for v in found.response["violations"]]
            assert said == []
            assert len(found.response["passes"]) > 20
