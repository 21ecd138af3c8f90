"""For programs and notebooks: a session as tables, and the verbs of the command line as functions.

    import rccltune

    session = rccltune.load("rccltune-session")
    session.samples        # pandas DataFrames: samples, curves, crossovers, rules, verdict, …
    rccltune.api.fit("rccltune-session")

No function prints or exits. What the command line would say goes to the logger ``rccltune``; what
it would end with is raised, a :class:`rccltune.model.RccltuneError` with its ``exit_code``.
"""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
