"""The session room: a folder of write-once launches, and what is derived from them.

In come launches with their raw logs, outcomes and samples; out come samples. Raw logs are kept
for ever and written atomically; ``samples.csv`` and everything beside it can be rebuilt. The room
never parses a log and never decides anything.
"""

from rccltune.schema import to_plain
from rccltune.session.derived import Derived
from rccltune.session.files import check_room, disk_errors, replacing, sha256_of, write_atomically
from rccltune.session.lock import writing
from rccltune.session.ours import SWEEP_FILE, is_ours, remember
from rccltune.session.store import (
    FORMAT,
    HEADER,
    Session,
    combined_fingerprint,
    commit,
    dump_json,
    has_current_samples,
    launch_id,
    launches_digest,
    open_session,
    raw_log,
    read_derived,
    read_launch,
    read_launches,
    samples_sha256,
    stored_samples,
    write_derived,
    write_header,
)
from rccltune.session.table import COLUMNS, dump_samples, load_samples

__all__ = [
    "COLUMNS",
    "FORMAT",
    "HEADER",
    "SWEEP_FILE",
    "Derived",
    "Session",
    "check_room",
    "combined_fingerprint",
    "commit",
    "disk_errors",
    "dump_json",
    "dump_samples",
    "has_current_samples",
    "is_ours",
    "launch_id",
    "launches_digest",
    "load_samples",
    "open_session",
    "raw_log",
    "read_derived",
    "read_launch",
    "read_launches",
    "remember",
    "replacing",
    "samples_sha256",
    "sha256_of",
    "stored_samples",
    "to_plain",
    "write_atomically",
    "write_derived",
    "write_header",
    "writing",
]
