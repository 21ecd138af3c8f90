"""The rooms in order: the only package beside the command line that knows them all.

Each step reads what the step before it left in the session folder and makes it when it is not
there, so ``rccltune plot`` works right after ``rccltune import``.
"""

from rccltune.pipeline.emitting import Emitted, EmitWish, emit_rules
from rccltune.pipeline.fitting import FitDone, choice_of, fit_session
from rccltune.pipeline.importing import Imported, import_files, load_samples
from rccltune.pipeline.plotting import plot_session
from rccltune.pipeline.site import find_site, in_mode
from rccltune.pipeline.wishes import merge_wishes

__all__ = [
    "EmitWish",
    "Emitted",
    "FitDone",
    "Imported",
    "choice_of",
    "emit_rules",
    "find_site",
    "fit_session",
    "import_files",
    "in_mode",
    "load_samples",
    "merge_wishes",
    "plot_session",
]
