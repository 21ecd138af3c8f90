"""The rooms in order: the only package beside the command line that knows them all.

Each step reads what the step before it left in the session folder and makes it when it is not
there, so ``rccltune plot`` works right after ``rccltune import``.
"""

from rccltune.pipeline.agreeing import Agreements, agreements
from rccltune.pipeline.believing import Checked, check_beliefs
from rccltune.pipeline.emitted import Emitted, EmitWish
from rccltune.pipeline.emitting import emit_rules
from rccltune.pipeline.fitting import FitDone, choice_of, fit_session
from rccltune.pipeline.importing import Imported, import_files, load_samples
from rccltune.pipeline.linking import (
    draw_links,
    links_as_plain,
    measure_links,
    prepare_links,
    stored_links,
)
from rccltune.pipeline.plotting import plot_predicted, plot_session
from rccltune.pipeline.scaling import Predicted, predicted, scale_models
from rccltune.pipeline.site import find_site, in_mode
from rccltune.pipeline.varying import variant_named
from rccltune.pipeline.wishes import merge_wishes, session_wishes

__all__ = [
    "Agreements",
    "Checked",
    "EmitWish",
    "Emitted",
    "FitDone",
    "Imported",
    "Predicted",
    "agreements",
    "check_beliefs",
    "choice_of",
    "draw_links",
    "emit_rules",
    "find_site",
    "fit_session",
    "import_files",
    "in_mode",
    "links_as_plain",
    "load_samples",
    "measure_links",
    "merge_wishes",
    "plot_predicted",
    "plot_session",
    "predicted",
    "prepare_links",
    "scale_models",
    "session_wishes",
    "stored_links",
    "variant_named",
]
