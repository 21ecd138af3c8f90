"""What TransferBench's a2a printed: three forms, real figures, damage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from printing import MI300X, MI350X, Rates, columns_form, cut, framed_form, links_of, square

from rccltune.model.errors import OutputError
from rccltune.transferbench import LinkRates, read_rates

FORMS: dict[str, Callable[[Rates], str]] = {
    "columns": columns_form,
    "commas": lambda rates: columns_form(rates, separator=","),
}


def rates_of(found: LinkRates) -> dict[tuple[int, int], float]:
    """Figures alone."""
    return {where: link.gb_per_s for where, link in found.links.items()}


def test_the_articles_own_output(article: Path) -> None:
    """Every figure of the whole text."""
    text = article.read_text(encoding="utf-8")
    found = read_rates(text, "article")
    assert rates_of(found) == links_of(square(MI300X))
    assert not found.simulated


def test_these_tests_print_as_the_program_does(article: Path) -> None:
    """Each row to the blank, but for sums, which it makes of more decimals than it prints."""
    text = article.read_text(encoding="utf-8")
    rows = [line for line in columns_form(square(MI300X)).splitlines() if "N/A" in line]
    assert len(rows) == 8
    for row in rows:
        links = row[: len("GPU 00") + 8 * len("   47.000  ")]
        assert links.rstrip() in text
        assert abs(float(row.split()[-2]) - _sums(text)[row[:6]]) < 0.0041  # eight roundings


def _sums(text: str) -> dict[str, float]:
    """The article's STotal by its rows' names."""
    rows = [line for line in text.splitlines() if line.startswith("GPU 0") and "N/A" in line]
    return {line[:6]: float(line.split()[-2]) for line in rows}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [MI300X, MI350X])
def test_published_figures_in_each_form(form: str, rows: tuple[tuple[float, ...], ...]) -> None:
    """All 56 links, to the third decimal."""
    assert rates_of(read_rates(FORMS[form](square(rows)), "x")) == links_of(square(rows))


@pytest.mark.parametrize("printed", [{}, {"framed": False}, {"framed": False, "separator": ","}])
def test_the_newer_table_has_two_decimals(printed: dict[str, Any]) -> None:
    """The same links, rounded: in its frame, without it, with commas."""
    found = read_rates(framed_form(square(MI300X), **printed), "x")
    assert rates_of(found) == pytest.approx(links_of(square(MI300X)), abs=0.00501)


@given(
    st.integers(2, 20).flatmap(
        lambda n: st.lists(
            st.lists(st.none() | st.integers(1, 999999), min_size=n, max_size=n),
            min_size=n,
            max_size=n,
        )
    ),
    st.sampled_from(sorted(FORMS)),
)
def test_any_square_reads_back(thousandths: list[list[int | None]], form: str) -> None:
    """Missing links included; what a device copies to itself (A2A_LOCAL=1) is no link."""
    rates = [[None if x is None else x / 1000 for x in row] for row in thousandths]
    found = read_rates(FORMS[form](rates), "x")
    assert rates_of(found) == {(a, b): rate for (a, b), rate in links_of(rates).items() if a != b}


class TestDamage:
    """Each refused with its line and what to do; nothing is guessed."""

    def refused(self, text: str, words: str, line: int | None = None) -> None:
        """As said."""
        with pytest.raises(OutputError, match=words) as caught:
            read_rates(text, "a2a.txt")
        assert caught.value.hint
        where = str(caught.value.where)
        assert where == (f"a2a.txt:{line}" if line else "a2a.txt")

    def test_nothing_of_it(self) -> None:
        """A log of something else."""
        self.refused("hello\n", r"0 tables of links.*SRC\\DST")

    def test_the_other_preset(self) -> None:
        """One link at a time, and a table of CPUs too."""
        text = "SRC+EXE\\DST    CPU 00    GPU 00\nGPU 00  ->  55.47  2132.28\n"
        text += "     SRC\\DST    CPU 00    GPU 00\nGPU 00  ->  55.47  N/A\n"
        self.refused(text, "0 tables of links")

    def test_the_end_is_missing(self) -> None:
        """A disk that was full."""
        text = cut(columns_form(square(MI300X)), "GPU 05")
        self.refused(text, r"8 devices with the rows \[0, 1, 2, 3, 4\]", 6)

    def test_a_row_that_lost_a_figure(self) -> None:
        """Columns would shift."""
        text = columns_form(square(MI300X)).replace("   45.543  ", "")
        self.refused(text, "a row of 9 figures under 10 columns", 8)

    @pytest.mark.parametrize("word", ["0.000", "nan", "inf", "-1.000", "45"])
    def test_no_rate(self, word: str) -> None:
        """Zero is a link that failed, and no speed."""
        text = columns_form(square(MI300X)).replace("45.543", word)
        self.refused(text, f"'{word}', which is no rate", 8)

    def test_two_runs_in_one_file(self) -> None:
        """Which one counts is for the user to say."""
        once = columns_form(square(MI300X))
        self.refused(once + once, "2 tables")

    def test_no_copies(self) -> None:
        """Writing alone is faster than what a collective does."""
        once = columns_form(square(MI300X))
        self.refused(once.replace("1 Read(s)", "0 Read(s)"), "read or write only")

    def test_several_hosts(self) -> None:
        """Averages and extremes over hosts are not the links of one."""
        text = framed_form(square(MI300X)).replace("GPU 07 ", "GPU 07 (Rnk)", 1)
        self.refused(text, "over several hosts", 4)

    @given(st.binary(max_size=300))
    def test_any_bytes(self, junk: bytes) -> None:
        """Never anything but an error that says what is wrong."""
        text = columns_form(square(MI300X)).replace("45.543", junk.decode("latin-1"))
        with suppress(OutputError):
            read_rates(text, "x")
