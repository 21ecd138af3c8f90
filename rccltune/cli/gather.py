"""``rccltune gather``: what can be sent to us, and nothing else."""

from __future__ import annotations

from pathlib import Path

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import verb
from rccltune.cli.shared_options import FOLDER
from rccltune.model.text import join_lines


@verb("gather")
@click.argument("what", type=FOLDER, default=DEFAULT_SESSION, metavar="[SESSION|machine]")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("rccltune-gathered.tar.gz"),
    show_default=True,
    help="The archive.",
)
@common
def gather(*, console: Console, what: Path, output: Path) -> None:
    """Make one archive to send, of a session or of this machine, from a list of files and fields.

    Hosts are hashed; paths, command lines and logs are not in it.
    What is in it is listed, then written. Nothing is sent.

    \b
    Example:
      rccltune gather
      rccltune gather machine -o machine.tar.gz

    Exit codes: 0 done, 2 no session, or the file is there; 7 a full disk.
    """
    from rccltune import gather as gathering

    content = gathering.gather(what)
    gathering.check_free(output)
    plain = {
        "what": content.what,
        "files": {name: len(data) for name, data in content.files.items()},
        "left_out": content.left_out,
        "not_listed": content.n_unlisted,
        "hosts": content.hosts,
    }
    console.result(plain, join_lines(content.listing()))
    nbytes = gathering.write(content, output)
    console.say(f"{output}: {nbytes:,} bytes. Nothing was sent.")
    console.say("Next: look into it, then attach it to an issue.")
