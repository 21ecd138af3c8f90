"""Names and secrets by what stands beside them: behind ``on node17 device`` node17 is a host."""

from __future__ import annotations

import re
from typing import Any

from . import looks, patterns
from .names import Names
from .variables import is_secret

_CACHED_LINES = 200_000
_HOST_KEYS = ("host", "hosts", "hostname")
_USER_KEYS = ("user", "username")
_AT = re.compile(patterns.AT)
_HOME = re.compile(rf"(?i){patterns.HOMES}(?P<person>{patterns.SEGMENT_OF_PATH})")


class Learner:
    """Tells names to those who replace them."""

    def __init__(self, names: Names) -> None:
        """Begin with what is known already."""
        self.names = names
        self._learnt: set[str] = set()

    def text(self, text: str) -> None:
        """Learn from any text."""
        for line in text.split("\n"):
            if line not in self._learnt:
                if len(self._learnt) > _CACHED_LINES:
                    self._learnt.clear()
                self._learnt.add(line)
                self._hosts(line)
                self._users(line)
                if patterns.SECRET_HINT.search(line):
                    self._secrets(line)

    def file_name(self, name: str) -> None:
        """Learn from a file that each host writes for itself."""
        found = patterns.PER_HOST_FILE.fullmatch(name)
        if found is not None:
            self.names.know_host(found[2])

    def plain(self, value: Any, key: str = "") -> None:  # noqa: ANN401 - of a JSON file
        """Learn from what stood in a JSON file, where it is called ``key``."""
        if isinstance(value, dict):
            for name, inside in value.items():
                self.text(str(name))
                # A host of hosts.json is a record that has its name.
                self.plain(inside, "host" if (key, name) == ("hosts", "name") else str(name))
        elif isinstance(value, list):
            before = ""
            for item in value:
                if isinstance(item, str):
                    self._behind(before, item)
                self.plain(item, key)
                before = item if isinstance(item, str) else ""
        elif isinstance(value, str):
            self._entry(key, value)
            self.text(value)

    def _behind(self, before: str, item: str) -> None:
        """A word of a command, or the second of a pair."""
        if before in patterns.HOST_OPTIONS:
            self.names.know_hosts(item)
        if looks.is_secret_word(before):
            self.names.know_secret(item)

    def _entry(self, key: str, value: str) -> None:
        if key in _HOST_KEYS:
            self.names.know_host(value)
        elif key in _USER_KEYS:
            self.names.know_user(value)
        elif "sha256" in key and re.fullmatch("[0-9a-fA-F]{64}", value):
            self.names.know_digest(value)
        elif key == "id" and re.fullmatch("[0-9a-f]{32}", value):
            # A session's own: drawn by chance, and good for nothing but telling sessions apart.
            self.names.know_digest(value)
        elif is_secret(key):
            self.names.know_secret(value)

    def _hosts(self, line: str) -> None:
        for digest in patterns.DIGEST.findall(line):
            self.names.know_digest(digest)
        for pattern in (patterns.RANK, patterns.STARTED):
            for found in pattern.finditer(line):
                self.names.know_host(found[2])
        for found in patterns.LOG_HEAD.finditer(line):
            # Behind a blank a row's last digit may stand before the name.
            if not found[1].isspace() or not patterns.GLUED.match(found[2]):
                self.names.know_host(found[2])
        for pattern in patterns.HOSTS_SAID:
            for name in pattern.findall(line):
                self.names.know_host(name)
        for several in patterns.HOST_LISTS.findall(line):
            self.names.know_hosts(several)

    def _users(self, line: str) -> None:
        for pattern in patterns.USERS_SAID:
            for name in pattern.findall(line):
                self.names.know_user(name)
        for found in _HOME.finditer(line):
            self.names.know_user(found["person"])
        if "@" not in line:
            return
        for found in patterns.URL.finditer(line):
            self.names.know_secret((found[1] or "")[:-1].partition(":")[2])
        for found in _AT.finditer(patterns.URL.sub("://", line)):
            if not found["person"].isdigit():
                self.names.know_user(found["person"])
            if "." not in found["at_host"]:
                self.names.know_host(found["at_host"])

    def _secrets(self, line: str) -> None:
        for pattern in (patterns.ASSIGNED, patterns.SECRET_SAID, patterns.OPTION):
            for found in pattern.finditer(line):
                value = looks.bare(found["value"])[0]
                if is_secret(found["name"]) and not looks.is_count(value):
                    self.names.know_secret(looks.without_scheme(value))
