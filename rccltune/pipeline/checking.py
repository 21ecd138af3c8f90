"""Proof that the installed plugin loads and answers."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from rccltune import plugin, verify
from rccltune.errors import VerificationError
from rccltune.model import Setting
from rccltune.verify import Host
from rccltune.vocab import Algorithm, Collective, Protocol

# ring/ll is the one answer that even hosts of ABI version 2 may be given.
_RULE = "allreduce,1024,4096,ring,ll,4,1,8\n"
_EXPECTED = Setting.parse("ring/ll/4")


def check_plugin(path: Path) -> list[str]:
    """Load the file and ask it at every version of the interface, inside a rule and outside.

    Returns:
        One line for each version.

    Raises:
        MachineError: it cannot be loaded.
        VerificationError: an answer is wrong.
    """
    host = Host(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [f"{path}", f"sha256 {digest}", f"built: {plugin.build_info()}"]
    table = verify.cost_table((a, p) for a in Algorithm for p in Protocol)
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        rules = Path(folder) / "rules.csv"
        rules.write_text(_RULE, encoding="utf-8")
        env = {"NCCL_TUNER_CONFIG_FILE": str(rules)}
        for abi in host.abi_versions:
            with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
                found = verify.decisions(communicator, Collective.ALL_REDUCE, table, (1024, 4096))
            told = [(d.min_nbytes, d.max_nbytes) for d in found if d.setting == _EXPECTED]
            if told != [(1024, 4096)] or len(found) != 3:
                raise VerificationError(
                    f"ABI version {abi}: a rule for 1024 to 4096 bytes is answered as {found}",
                    where=str(path),
                    hint="install rccltune again; if it stays so, please report it.",
                )
            lines.append(f"ABI version {abi}: loads, applies a rule, leaves the rest alone")
    return lines
