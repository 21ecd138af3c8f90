"""What is known of one host that takes part."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.fields import Line, Text, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host as it says itself.

    Attributes:
        name: its own, as ``uname -n`` has it; a host file may call it otherwise.
        boot_id: tells hosts of one name apart, None where the kernel does not say.
        n_ranks: started there.
        facts: (what, value) that must be alike on all hosts, in the order in which they are shown;
            what a host does not have is not listed.
    """

    name: Line
    boot_id: Line | None = None
    n_ranks: Whole
    facts: tuple[tuple[Line, Text], ...] = ()

    def __post_init__(self) -> None:
        """A name for each fact, and at least one rank."""
        if self.n_ranks < 1:
            raise ValueError(f"{self.name} answered without a rank")
        names = [what for what, _ in self.facts]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} says something twice")
