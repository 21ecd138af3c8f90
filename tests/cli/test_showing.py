"""What is data is shown; only layout breaks lines."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.errors import InputFileError
from rccltune.model.json_text import json_text
from rccltune.model.text import join_lines, printable

# With the halves of surrogate pairs that undecodable file names have.
ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    """Whatever it was; and showing it again changes nothing."""
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    printable(text).encode()


@given(
    st.recursive(ANY | st.integers() | st.none(), lambda c: st.lists(c) | st.dictionaries(ANY, c))
)
def test_json_can_be_shown_and_says_the_same(plain: object) -> None:
    """Valid, printable, and read back as it was; its line breaks are layout."""
    for indent in (None, 1):
        text = json_text(plain, indent)
        assert text.replace("\n", "").isprintable()
        text.encode()
        assert json.loads(text) == plain
    assert "\n" not in json_text(plain)


@given(ANY, ANY, ANY)
def test_an_error_has_the_lines_that_it_was_given(message: str, where: str, hint: str) -> None:
    """No part of it forges another one."""
    lines = str(
        InputFileError(join_lines(["2 mistakes:", message, message]), where=where, hint=hint)
    )
    assert lines == "\n".join(
        [
            "2 mistakes:",
            *[printable(message)] * 2,
            f"  at: {printable(where)}",
            f"  Hint: {printable(hint)}",
        ]
    )


# --- nobody goes round it -------------------------------------------------------------------------

# Programs of their own; what they print is for rccltune, or is a benchmark's table.
PROGRAMS = ("machine/smi_child.py",)


Sources = dict[str, list[ast.AST]]


def _calls(sources: Sources) -> Iterator[tuple[str, ast.Call]]:
    for name, nodes in sources.items():
        for node in nodes:
            if isinstance(node, ast.Call) and not name.startswith(PROGRAMS):
                yield f"{name}:{node.lineno}", node


def test_one_module_prints(sources: Sources) -> None:
    """Else something would reach the terminal as it is."""
    printing = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
    printing |= {"error.show", "os.write", "warnings.warn"}
    found = {
        where.partition(":")[0]
        for where, call in _calls(sources)
        if ast.unparse(call.func) in printing
    }
    # The module that jobs import prints its one line of JSON.
    assert found == {"cli/console.py", "torch.py"}


def _breaks_lines(argument: ast.expr) -> bool:
    """Whether text itself, not what was laid, has a line break of ours."""
    if isinstance(argument, ast.Call) and ast.unparse(argument.func) in (
        "join_lines",
        "JoinedLines",
    ):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value
        for node in ast.walk(argument)
    )


def test_lines_of_ours_are_laid(sources: Sources) -> None:
    """Elsewhere a line break would be shown as one of data: ``\\n``. Use rccltune.model.text.join_lines."""
    told = ("note", "say", "talk", "put", "detail", "result")
    found = [
        where
        for where, call in _calls(sources)
        if ast.unparse(call.func).rpartition(".")[2].endswith(("Error", *told))
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        if _breaks_lines(argument)
    ]
    assert found == []
