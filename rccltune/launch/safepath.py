"""Starting a Python that imports nothing from the folder that it is started in.

``python -c`` and ``python -m`` put the current folder first on the path: a ``torch.py`` there, in
a session that somebody mailed say, would run instead of PyTorch. ``-P`` and PYTHONSAFEPATH came
with Python 3.11, and the Python that has torch may be older.
"""

from __future__ import annotations

from typing import Final

# sys is built in, so that its own import looks nowhere; os is there since the start.
_WITHOUT: Final = (
    "import sys; _os = sys.modules['os']; "
    "sys.path[:] = [p for p in sys.path if p and _os.path.realpath(p) != _os.getcwd()]"
)


def program(python: str, code: str) -> tuple[str, ...]:
    """The command that runs code."""
    return (python, "-c", f"{_WITHOUT}\n{code}")


def module(python: str, name: str) -> tuple[str, ...]:
    """The command that runs a module as ``-m`` does; its arguments follow."""
    code = (
        f"{_WITHOUT}; import runpy; runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
    )
    return (python, "-c", code)
