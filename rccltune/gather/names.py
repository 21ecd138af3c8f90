"""What is known of hosts, people and secrets, and what stands for each of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Iterable, Pattern

from . import looks

# Names that name nobody. Who has one of them as a name of a host or of a person keeps it, where
# nothing beside it says that it is one.
_ORDINARY_TEXT = """
    root localhost home user users admin host hosts node nodes gpu gpus rank ranks local remote
    opt usr lib lib64 bin var tmp etc dev sys proc share include build src data main test tests
    scratch work project projects shared software apps rocm rccl nccl amd nvidia hip cuda mpi
    openmpi mpich intel slurm torch python python3 rccltune rccl-tests nccl-tests mpirun mpiexec
    orterun prterun srun proxy hydra git github ubuntu debian linux secret value mail address
    domain serial info warn error debug trace version using device devices size count type time
    redop busbw algbw wrong float half double bfloat16 uint8 int8 sum prod min max avg in-place
    out-of-place none null true false yes off default auto unknown simulated sim begin end rules
    schedule silent baseline step calls comm this the for and not with session
"""
_ORDINARY = frozenset(_ORDINARY_TEXT.split())
ALIAS = re.compile(r"(?:hosts?|user|secret|value|serial)-\d+")
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}")


class Names:
    """Names, and their stand-ins: equal ones of equal ones.

    Attributes:
        counts: replacements so far, by kind: host, user, address, identity, secret, value.
    """

    def __init__(self, protected: Iterable[str] = ()) -> None:
        """Start knowing nobody.

        Args:
            protected: words of the formats that must stay readable; no name is one of them.
        """
        self.counts: Counter[str] = Counter()
        self._protected = _ORDINARY | {word.lower() for word in protected}
        self._aliases: dict[tuple[str, str], str] = {}
        self._n_of: Counter[str] = Counter()
        self._words: dict[str, tuple[str, str]] = {}
        self._hosts: set[str] = set()
        self._domains: set[str] = set()
        self._heads: set[str] = set()
        self._secrets: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._names: Pattern[str] | None = None
        self._hidden: Pattern[str] | None = None
        self._lines: dict[tuple[str, bool], tuple[str, Counter[str]]] = {}

    def know_host(self, name: str) -> None:
        """A host, by its full or its short name; both get the same alias."""
        name = name.strip(".").lower()
        if not NAME.fullmatch(name) or not re.search("[a-z]", name) or looks.is_address(name):
            return
        if name == "localhost" or ALIAS.fullmatch(name):
            return
        short, _, domain = name.partition(".")
        self._hosts.add(short)
        alias = self._host(short)
        self._word(name, "host", alias)
        self._word(short, "host", alias)
        numbered = re.fullmatch(r"(.*[a-z_-])\d+\D*", short)
        if numbered is not None:
            self._heads.add(numbered[1])
        if domain and domain not in self._protected and domain not in ("local", "localdomain"):
            self._domains.add(domain)
        self._forget_lines()

    def know_user(self, name: str) -> None:
        """A person, by the name of the account or the whole name."""
        name = name.strip().lower()
        if name in self._protected or ALIAS.fullmatch(name) or "\n" in name:
            return
        if len(name) > 2 and re.search(r"[^\W\d_]", name):
            self._word(name, "user", self._user(name))

    def know_secret(self, value: str) -> None:
        """A secret, which is one wherever it occurs; short and everyday words are not known."""
        value = value.strip("\"'")
        is_number = value.isdigit() and len(value) < 8
        if len(value) < 6 or is_number or value.startswith("/") or ALIAS.fullmatch(value):
            return
        if value.lower() not in self._protected and value not in self._secrets:
            self._secrets[value] = self._alias("secret", value)
            self._hidden = None
            self._forget_lines()

    def know_digest(self, old: str, new: str | None = None) -> None:
        """A file's SHA-256, which stays as it is, or becomes that of the scrubbed file."""
        if new is not None or old.lower() not in self._digests:
            self._digests[old.lower()] = new or old
        self._forget_lines()

    def _word(self, word: str, kind: str, alias: str) -> None:
        if 2 < len(word) <= 200 and word not in self._protected and word not in self._words:
            self._words[word] = (kind, alias)
            escaped = ascii(word)[1:-1].replace("\\x", "\\u00")
            # As JSON has it where it was written in ASCII.
            self._words.setdefault(escaped, (kind, alias))
            self._names = None
            self._forget_lines()

    def _forget_lines(self) -> None:
        self._lines.clear()

    def know_hosts(self, names: str) -> None:
        """A list with commas, each perhaps with its number of slots."""
        for name in names.split(","):
            self.know_host(name.partition(":")[0])

    def _host(self, name: str) -> str:
        name = name.strip(".").lower()
        short = name.partition(".")[0]
        return self._alias("host", short if short in self._hosts else name)

    def _user(self, name: str) -> str:
        return self._alias("user", name.lower())

    def _alias(self, kind: str, key: str, form: str = "") -> str:
        if ALIAS.fullmatch(key):
            return key
        known = self._aliases.get((kind, key))
        if known is None:
            self._n_of[kind] += 1
            known = self._aliases[kind, key] = (form or kind + "-{}").format(self._n_of[kind])
        return known

    def _counted(self, kind: str, old: str, new: str) -> str:
        if old != new:
            self.counts[kind] += 1
        return new

    def names(self) -> tuple[tuple[str, str], ...]:
        """(name, stand-in) of every host and person that is known, for its owner alone."""
        return tuple(
            (key, alias) for (kind, key), alias in self._aliases.items() if kind in ("host", "user")
        )
