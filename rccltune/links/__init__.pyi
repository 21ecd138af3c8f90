from .pairs import PairProgress as PairProgress
from .pairs import Prepared as Prepared
from .session import draw_links as draw_links
from .session import links_as_plain as links_as_plain
from .session import measure_links as measure_links
from .session import prepare_links as prepare_links
from .session import stored_links as stored_links
