"""The self-test of the plugin: it loads at every version, applies a rule, refuses a wrong file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rccltune import plugin
from rccltune.model.errors import InputFileError, VerificationError
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.decision import cost_table, find_decisions
from rccltune.rules.plugin_library import PluginLibrary

# A machine, and a file for another one.
_INFORMATION = "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\n"
_OF_ANOTHER = "#@ requires product=NVIDIA-H100\n"
# ring/ll is the one answer that even hosts of ABI version 2 may be given.
_RULE = "allreduce,1024,4096,ring,ll,4,1,8\n"
_EXPECTED = Setting.parse("ring/ll/4")


def check_plugin(path: Path) -> list[str]:
    """Load the file and ask it at every version of the interface, inside a rule and outside.

    Returns:
        What the file is, and one line for each version.

    Raises:
        MachineError: it cannot be loaded.
        VerificationError: an answer is wrong.
    """
    host = PluginLibrary(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    built = plugin.build_info()
    how = f"version {built['version']}, {built['build_type']} build by {built['compiler']}"
    lines = [f"{path}", f"  {how}, sha256 {digest}"]
    table = cost_table((a, p) for a in Algorithm for p in Protocol)
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        rules = Path(folder) / "rules.csv"
        rules.write_text(_RULE, encoding="utf-8")
        env = {"NCCL_TUNER_CONFIG_FILE": str(rules)}
        for abi in host.abi_versions:
            with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
                answers = find_decisions(communicator, Collective.ALL_REDUCE, table, (1024, 4096))
            spans = [(d.min_nbytes, d.max_nbytes) for d in answers if d.setting == _EXPECTED]
            if spans != [(1024, 4096)] or len(answers) != 3:
                raise VerificationError(
                    f"ABI version {abi}: a rule for 1024 to 4096 bytes is answered as {answers}",
                    where=str(path),
                    hint="install rccltune again; if it stays so, please report it.",
                )
            lines.append(f"  tuner interface v{abi}: loads, applies a rule, leaves the rest alone")
        rules.write_text(_OF_ANOTHER + _RULE, encoding="utf-8")
        information = Path(folder) / _INFORMATION[0]
        information.parent.mkdir(parents=True)
        information.write_text(_INFORMATION[1], encoding="utf-8")
        _check_refusal(host, {**env, "RCCLTUNE_SYSROOT": folder})
        lines.append("  a file for another GPU: refused")
    return lines


def _check_refusal(host: PluginLibrary, env: Mapping[str, str]) -> None:
    """Start the plugin with a file for another machine.

    Raises:
        VerificationError: it takes the file.
    """
    try:
        communicator = host.communicator(abi=max(host.abi_versions), n_nodes=1, n_ranks=8, env=env)
    except InputFileError as error:
        if "requires another machine" in error.message:
            return
        raise
    communicator.close()
    raise VerificationError(
        "a file for another machine is not refused",
        where=str(host.path),
        hint="install rccltune again; if it stays so, please report it.",
    )
