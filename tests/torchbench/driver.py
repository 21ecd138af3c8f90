"""The runner with something between it and gloo; started by the tests in the Python with torch.

* ``driver.py spoil …``: one element of rank 1 is always wrong, as a faulty library's would be
* ``driver.py ask …``: asks the real plugin of every call, as NCCL does and gloo does not
* ``driver.py ask-more …``: the same, and once more than the runner calls, in its second pass
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

OPEN = [[5.0] * 3 for _ in range(7)]


def load(name: str, path: Path) -> ModuleType:
    """A file as a module, without what its package imports."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ROOT = Path(__file__).resolve().parents[2] / "rccltune"
load("torchbench_main", ROOT / "torchbench" / "__main__.py")._find_rccltune()

from rccltune.torchbench import program, ranks, teams  # noqa: E402 - found first


class Spoiling(teams.TorchLibrary):
    """Changes one element of what rank 1 receives."""

    def call(self, collective, receive, send, redop, root):  # noqa: ANN001, ANN201 - torch's
        """The real call, and then the fault."""
        done = super().call(collective, receive, send, redop, root)
        if self._dist.get_rank() == 1:
            receive[receive.numel() // 2] += 1
        return done


class Asking(teams.TorchLibrary):
    """Asks the plugin; its communicator begins with the first call, as NCCL's does in torch."""

    asked = None
    n_more = 0

    def call(self, collective, receive, send, redop, root):  # noqa: ANN001, ANN201 - torch's
        """Ask with all cells open, and then the real call."""
        if "NCCL_TUNER_PLUGIN" not in os.environ:
            return super().call(collective, receive, send, redop, root)
        if self.asked is None:
            host = load("plugin_host", ROOT / "rules" / "host.py")
            known = {n: os.environ[n] for n in host.PLUGIN_VARIABLES if n in os.environ}
            self.asked = host.Host(Path(os.environ["NCCL_TUNER_PLUGIN"])).communicator(
                abi=5, n_nodes=1, n_ranks=self._dist.get_world_size(), env=known, comm_id=7
            )
        nbytes = max(receive.numel(), send.numel()) * receive.element_size()
        for _ in range(1 + self.n_more):
            self.asked.ask(collective, nbytes, OPEN)
        type(self).n_more = 0
        return super().call(collective, receive, send, redop, root)

    def close(self):  # noqa: ANN201 - torch's
        """End both."""
        if self.asked is not None:
            self.asked.close()
        super().close()


class AskingMore(Asking):
    """Asks once more in the second pass, as a framework that calls for itself would."""


def main() -> int:
    """The runner with one of them."""
    what, words = sys.argv[1], sys.argv[2:]
    teams.TorchLibrary = {"spoil": Spoiling, "ask": Asking, "ask-more": AskingMore}[what]
    if what == "ask-more":
        begin = ranks.Steps.begin

        def and_more(self: ranks.Steps, cycle: int) -> None:
            begin(self, cycle)
            AskingMore.n_more = int(cycle == 1)

        ranks.Steps.begin = and_more
    return program.main(words)


if __name__ == "__main__":
    sys.exit(main())
