from rccltune import api as api
from rccltune.api import load as load

__version__: str
