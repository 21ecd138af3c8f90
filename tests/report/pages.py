"""Pages made by hand, with every kind of block and whatever text a test wants in all of them."""

from __future__ import annotations

from rccltune.report.records import (
    Axis,
    Band,
    Code,
    Column,
    Fact,
    Facts,
    Figure,
    Headline,
    Items,
    LaunchEntry,
    Launches,
    Line,
    Mark,
    Page,
    Part,
    Plot,
    Point,
    Section,
    Table,
    Words,
)


def figure(text: str = "all_reduce", *, name: str = "figure-1", points: int = 3) -> Figure:
    """A line of points over sizes from 1 KiB on, one band of a rule and one of none."""
    found = tuple(
        Point(x=1024.0 * 2**i, y=1.0 + i / 10, words=f"{text} {i}", low=0.9, high=1.1 + i / 10)
        for i in range(points)
    )
    end = 1024.0 * 2**points
    return Figure(
        name=name,
        title=text,
        words=text,
        stamp=f"SIMULATED {text}",
        loud=True,
        x=Axis(label=text, low=512.0, high=end, ticks=((1024.0, text),)),
        y=Axis(label=text, low=0.5, high=3.0, ticks=((1.0, "1×"),)),
        lines=(
            Line(name=text, points=found, ink="ll"),
            Line(name=f"{text} 2", points=found, ink="simple", marker="triangle", filled=False),
            Line(name=text, points=found, ink="grey", marker="none", faint=True),
        ),
        header=("size", text, "b"),
        rows=(("1 KiB", text, "1.0"), ("2 KiB", "–", text)),
        source=text,
        bands=(
            (
                "rules",
                (
                    Band(low=512.0, high=1024.0, name=text, ink=None),
                    Band(low=1024.0, high=end, name=text, ink="ll"),
                ),
            ),
        ),
        level=(1.0, text),
    )


def launch(text: str = "all_reduce", *, bad: bool = False) -> LaunchEntry:
    """A launch whose every part is the text."""
    return LaunchEntry(
        name=text,
        summary=text,
        bad=bad,
        facts=(("exit", text),),
        command=text,
        environment=((text, text),),
        excerpt=(text, text),
        log=text,
    )


def page(text: str = "all_reduce", *, n_launches: int = 2) -> Page:
    """A page that has everything that a page can have."""
    columns = (Column(name=text), Column(name="n", numeric=True))
    blocks = (
        Words(text=text),
        Items(items=(text, text)),
        Items(items=(text,), ordered=True),
        Table(caption=text, columns=columns, rows=((text, "1"),), source=text),
        Table(caption=text, columns=columns, rows=((text, text),), folded=True),
        Facts(caption=text, facts=(Fact(name=text, value=text, source=text),)),
        Code(caption=text, text=text, source=text),
        Code(caption=text, text=text, folded=True),
        Launches(entries=tuple(launch(text, bad=bool(n % 2)) for n in range(n_launches))),
        Plot(figure=figure(text)),
    )
    return Page(
        title=text,
        subject=text,
        marks=(
            Mark(word=text, sentence=text, loud=True),
            Mark(word=text, sentence=text, loud=False),
        ),
        headline=Headline(claim=text, points=(text,), tiles=((text, text, text),)),
        sections=(
            Section(name="first", title=text, parts=(Part(title="", blocks=blocks),)),
            Section(
                name="second", title=text, parts=(Part(title=text, blocks=(Words(text="x"),)),)
            ),
        ),
        footer=text,
    )
