"""The buffers of a rank: views for each call, what is sent, and what came out of it."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from rccltune.model import Collective, Placement
from rccltune.torchbench.command import DTYPES
from rccltune.torchbench.counts import Counts
from rccltune.torchbench.options import Options
from rccltune.torchbench.patterns import Pattern, pieces_of, sent_by
from rccltune.torchbench.teams import Team, names_of

Tensor: TypeAlias = Any
# What no rank sends (patterns), and every type has exactly.
_POISON: Final = 252.0
_POISON_INT8: Final = 127.0
# Elements that are filled or compared at once: 64 MiB of float beside the buffers themselves.
_BLOCK: Final = 1 << 24


class Buffers:
    """One allocation for all sizes, as rccl-tests have it; a share beside it for out of place."""

    def __init__(self, options: Options, team: Team, n_elements: int) -> None:
        """Room for the largest size."""
        self._options = options
        self._team = team
        self._dtype = names_of(DTYPES, team.torch)[options.dtype]
        self._poison = _POISON_INT8 if options.dtype in ("int8", "uint8") else _POISON
        self._whole = self._empty(n_elements)
        is_apart = Placement.OUT_OF_PLACE in options.placements
        self._share = self._empty(n_elements // team.n_ranks if is_apart else 0)

    def views(self, counts: Counts, placement: Placement) -> tuple[Tensor, Tensor]:
        """What a call receives into and sends from; the same tensor where torch takes one."""
        whole = self._whole[: counts.whole]
        share = counts.printed
        if not self._options.collective.is_shared:
            return whole, whole
        own = whole[self._team.rank * share : (self._team.rank + 1) * share]
        part = own if placement is Placement.IN_PLACE else self._share[:share]
        if self._options.collective is Collective.ALL_GATHER:
            return whole, part
        return part, whole

    def fill(self, counts: Counts, placement: Placement) -> None:
        """Write what this rank sends, and what no result holds into the rest."""
        receive, send = self.views(counts, placement)
        if receive.data_ptr() != send.data_ptr() or receive.numel() > send.numel():
            receive.fill_(self._poison)
        self._write(send, self._sent())

    def n_wrong(self, counts: Counts, placement: Placement) -> int:
        """Elements of this rank's output that are not what the collective must give."""
        options, team = self._options, self._team
        receive, _ = self.views(counts, placement)
        pieces = pieces_of(
            options.collective,
            rank=team.rank,
            root=options.root,
            share=counts.printed,
            dtype=options.dtype,
            redop=options.redop,
            n_ranks=team.n_ranks,
        )
        length = receive.numel() // max(1, len(pieces))
        return sum(
            self._differing(receive[i * length : (i + 1) * length], piece)
            for i, piece in enumerate(pieces)
        )

    def _sent(self) -> Pattern:
        options, team = self._options, self._team
        redop = options.redop if options.reduces else None
        if options.collective is Collective.BROADCAST and team.rank != options.root:
            return Pattern(values=(self._poison,))
        return sent_by(team.rank, dtype=options.dtype, redop=redop, n_ranks=team.n_ranks)

    def _write(self, into: Tensor, pattern: Pattern) -> None:
        tile, block = self._tile(into.numel(), pattern)
        for start in range(0, into.numel(), block):
            part = into[start : start + block]
            part.copy_(tile[: part.numel()])

    def _differing(self, found: Tensor, pattern: Pattern) -> int:
        tile, block = self._tile(found.numel(), pattern)
        n = 0
        for start in range(0, found.numel(), block):
            part = found[start : start + block]
            wanted = tile[: part.numel()]
            if pattern.tolerance:
                # What is no number is beyond every tolerance, so it is asked this way round.
                fine = (part - wanted).abs() <= pattern.tolerance
                n += part.numel() - int(fine.sum().item())
            else:
                n += int((part != wanted).sum().item())
        return n

    def _tile(self, n: int, pattern: Pattern) -> tuple[Tensor, int]:
        """The pattern repeated, and how far it carries: a whole number of periods."""
        period = len(pattern.values)
        values = (*pattern.values[pattern.start :], *pattern.values[: pattern.start])
        n_periods = max(1, min(-(-n // period), _BLOCK // period))
        one = self._team.torch.tensor(values, dtype=self._dtype, device=self._team.device)
        return one.repeat(n_periods), n_periods * period

    def _empty(self, n: int) -> Tensor:
        return self._team.torch.zeros(n, dtype=self._dtype, device=self._team.device)
