"""The detect room: what this machine is, in which mode, and what would falsify a measurement.

KFD's topology first, then PCI sysfs, then amdsmi in a child process; every value says where it
comes from, and sources that disagree are shown. All files are read below an injectable root, so a
captured tree is a machine. Nothing is changed, but by :func:`applied`, which puts it back.
"""

from rccltune.detect.apply import applied, needs
from rccltune.detect.assemble import Look, changes, devices_of, fingerprint, look, look_quickly
from rccltune.detect.doctor import Circumstances, doctor
from rccltune.detect.files import Root
from rccltune.detect.found import Benchmark, Library, Smi, SmiGpu, Starter
from rccltune.detect.hidden import HiddenFile, hidden_files
from rccltune.detect.links import Pair, choosing, pairs, representatives, usable
from rccltune.detect.loading import library_of, version_of
from rccltune.detect.mapped import (
    Loaded,
    LoadedLibrary,
    LoadedTuner,
    Mapped,
    loaded_by_process,
    loaded_by_torch,
)
from rccltune.detect.mode import check_mode, commands, fits
from rccltune.detect.places import SPLITTING, Layout, Placed, layout_of, place
from rccltune.detect.plain import as_plain
from rccltune.detect.records import (
    Disagreement,
    Finding,
    Gpu,
    Link,
    Oam,
    Severity,
    System,
    mode_text,
)
from rccltune.detect.situations import VISIBLE, situations
from rccltune.detect.smi import bindings, query, runner
from rccltune.detect.software import SIMULATED_MARK, linked_mpi, sha256_of
from rccltune.detect.tables import Tables, vendor_table

__all__ = [
    "SIMULATED_MARK",
    "SPLITTING",
    "VISIBLE",
    "Benchmark",
    "Circumstances",
    "Disagreement",
    "Finding",
    "Gpu",
    "HiddenFile",
    "Layout",
    "Library",
    "Link",
    "Loaded",
    "LoadedLibrary",
    "LoadedTuner",
    "Look",
    "Mapped",
    "Oam",
    "Pair",
    "Placed",
    "Root",
    "Severity",
    "Smi",
    "SmiGpu",
    "Starter",
    "System",
    "Tables",
    "applied",
    "as_plain",
    "bindings",
    "changes",
    "check_mode",
    "choosing",
    "commands",
    "devices_of",
    "doctor",
    "fingerprint",
    "fits",
    "hidden_files",
    "layout_of",
    "library_of",
    "linked_mpi",
    "loaded_by_process",
    "loaded_by_torch",
    "look",
    "look_quickly",
    "mode_text",
    "needs",
    "pairs",
    "place",
    "query",
    "representatives",
    "runner",
    "sha256_of",
    "situations",
    "usable",
    "vendor_table",
    "version_of",
]
