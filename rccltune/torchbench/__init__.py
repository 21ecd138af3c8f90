"""rccl-tests' benchmarks through PyTorch: the same options, the same table, torch's own library.

A program of its own (``python -m rccltune.torchbench all_reduce -b 8 -e 1G -f 2``), started once
per rank by torchrun or by any launcher. Nothing else of rccltune imports torch, and this room does
so when it runs; the Python that has torch need not have rccltune installed (:func:`argv`).
"""

from __future__ import annotations
