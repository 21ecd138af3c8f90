"""One way to take names and secrets out of any text; what was equal stays equal.

Names are learnt first, from all that is sent; secrets, addresses and identities are told by their
looks. Secrets go first, then identities, then names, so that none hides in another.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from typing import Any, Iterable, Match, Pattern

from . import looks, patterns
from .learn import Learner
from .names import ALIAS, NAME, Names
from .variables import is_listed, is_secret

_CACHED_LINES = 200_000
_Found = Match[str]
_STAND_INS = ("00000000-0000-0000-0000-", "0200:0000:0000:", "02:00:00:00:00:")
_OWN_NETS = ("192.0.2.", "198.18.")
_HEXTET = re.compile(r"[0-9A-Fa-f]{0,4}")
_HOST_KEYS = ("host", "hosts", "hostname")
_SERIAL_KEYS = ("serial", "serial_number", "asset_tag", "unique_id")
# The words of our own records; hosts and people are no keys there.
_KEY = re.compile(r"[a-z_]+|\w+_sha256")
_HOME = rf"(?P<home>{patterns.HOMES})(?P<home_person>{patterns.SEGMENT_OF_PATH})"


class Scrubber(Names):
    """Replaces what tells one machine, person or site from another."""

    def __init__(self, protected: Iterable[str] = ()) -> None:
        """Start knowing nobody; see :class:`Names`."""
        super().__init__(protected)
        self.learner = Learner(self)

    def text(self, text: str, *, addresses: bool = True) -> str:
        """Text with the replacements.

        Args:
            text: any, of several lines too.
            addresses: whether four numbers with dots are an address; they may be a version.
        """
        if "-----BEGIN" in text:
            text = patterns.KEY_BLOCK.sub(lambda m: self._secret(m[0]), text)
        return "\n".join(self._line(line, addresses) for line in text.split("\n"))

    def data(self, data: bytes) -> bytes:
        """The bytes of a text file; those that are no text stay what they were."""
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def file_name(self, name: str) -> str:
        """A file's name; that of a host in it has the alias that it has everywhere."""
        return self.text(name)

    def plain(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - of a JSON file
        """What stood in a JSON file, where it is called ``key``, with the replacements."""
        if isinstance(value, dict):
            return {
                k if _KEY.fullmatch(k) else self.text(k): self._entry(v, k, key)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return self._list(value, key)
        if is_secret(key) and _is_worth_hiding(value):
            return self._secret(str(value))
        return self._string(value, key) if isinstance(value, str) else value

    def _string(self, value: str, key: str) -> str:
        if key in _HOST_KEYS and NAME.fullmatch(value):
            return self._replaced_host(value)
        if key in _SERIAL_KEYS:
            return self._identity("serial", "serial-{}", value)
        return self.text(value)

    def _entry(self, value: Any, name: str, within: str) -> Any:  # noqa: ANN401 - see plain
        if within in ("environment", "variables") and isinstance(value, str):
            return self._value(name, value)
        return self.plain(value, "host" if (within, name) == ("hosts", "name") else name)

    def _list(self, items: list[Any], key: str) -> list[Any]:
        made = []
        before = ""
        for item in items:
            if isinstance(item, str) and looks.is_secret_word(before):
                made.append(self._secret(item))
            elif (
                isinstance(item, str) and looks.VARIABLE.fullmatch(before) and not is_listed(before)
            ):
                made.append(self._value(before, item))
            else:
                made.append(self.plain(item, key))
            before = item if isinstance(item, str) else ""
        return made

    def _line(self, line: str, addresses: bool) -> str:
        if not line:
            return line
        kept = self._lines.get((line, addresses))
        if kept is None:
            before, self.counts = self.counts, Counter()
            kept = (self._scrubbed(line, addresses), self.counts)
            self.counts = before
            if len(self._lines) > _CACHED_LINES:
                self._lines.clear()
            self._lines[line, addresses] = kept
        if kept[1]:
            self.counts.update(kept[1])
        return kept[0]

    def _scrubbed(self, text: str, addresses: bool) -> str:
        if self._secrets:
            text = self._hidden_words().sub(lambda m: self._secret(m[0]), text)
        text = patterns.URL.sub(self._url, text)
        text = self._assigned(text)
        text = patterns.TOKEN.sub(lambda m: self._secret(m[0]), text)
        text = patterns.UUID.sub(self._uuid, text)
        text = patterns.GUID.sub(
            lambda m: self._identity("guid", "0200:0000:0000:{:04x}", m[0]), text
        )
        text = patterns.MAC.sub(
            lambda m: self._identity("mac", "02:00:00:00:00:{:02x}", m[0]), text
        )
        text = patterns.LONG_HEX.sub(self._hexadecimal, text)
        text = patterns.SERIAL.sub(
            lambda m: m[1] + self._identity("serial", "serial-{}", m[2]), text
        )
        text = patterns.COLONS.sub(self._colons, text)
        if addresses:
            text = patterns.IPV4.sub(lambda m: self._ipv4(m[0]), text)
        for pattern in (patterns.RANK, patterns.LOG_HEAD, patterns.STARTED, patterns.PER_HOST_FILE):
            text = pattern.sub(self._between, text)
        text = patterns.LONG.sub(lambda m: self._long(m[0]), text)
        return self._known_names().sub(self._named, text)

    # Secrets.

    def _secret(self, value: str) -> str:
        if not value or ALIAS.fullmatch(value):
            return value
        return self._counted(
            "secret", value, self._secrets.get(value) or self._alias("secret", value)
        )

    def _value(self, name: str, value: str) -> str:
        """Of a variable: as it is where it is listed, else a stand-in."""
        if is_secret(name):
            self.know_secret(value)
            return self._secret(value)
        if is_listed(name):
            return self.text(value)
        return (
            value
            if ALIAS.fullmatch(value)
            else self._counted("value", value, self._alias("value", value))
        )

    def _url(self, found: _Found) -> str:
        person = ""
        if found[1]:
            person = self._secret(found[1][:-1]) + "@"
        host = found[2] or ""
        if host and not looks.is_address(host) and host.lower() != "localhost":
            host = self._counted("host", host, self._host(host))
        return f"://{person}{host}"

    def _assigned(self, text: str) -> str:
        """NAME=value, whatever=value of a secret's name, and --option value."""
        if "=" in text:
            text = patterns.ASSIGNED.sub(self._shell, text)
        if patterns.SECRET_HINT.search(text):
            text = patterns.SECRET_SAID.sub(self._said, text)
            text = patterns.OPTION.sub(self._said, text)
        return text

    def _shell(self, found: _Found) -> str:
        name, value = found["name"], found["value"]
        plain, behind = looks.bare(value)
        if not plain or (is_listed(name) and not is_secret(name)):
            return found[0]
        head = found[0][: len(found[0]) - len(value)]
        made = self._value(name, plain)
        return (
            f"{head}{value.replace(plain, made, 1) if value[0] in looks.QUOTES else made + behind}"
        )

    def _said(self, found: _Found) -> str:
        plain, behind = looks.bare(found["value"])
        is_plain = not plain or looks.is_count(plain) or ALIAS.fullmatch(plain)
        if is_plain or not is_secret(found["name"]):
            return found[0]
        self.know_secret(looks.without_scheme(plain))
        quote = found["value"][0] if found["value"][0] in looks.QUOTES else ""
        return f"{found['name']}{found['sep']}{quote}{self._secret(plain)}{quote or behind}"

    def _long(self, text: str) -> str:
        """Long strings that nobody wrote: keys. Digests of files are known."""
        if len(text) in (32, 64) and text.lower() in self._digests:
            return self._digests[text.lower()]
        if "/" in text:
            if len(text) >= 32 and looks.is_base64(text):
                return self._secret(text)
            return patterns.SEGMENT.sub(lambda m: self._long(m[0]), text)
        if text.startswith("_Z"):
            return text
        return self._secret(text) if looks.is_random(text) else text

    def _hidden_words(self) -> Pattern[str]:
        if self._hidden is None:
            plain = [s for s in self._secrets if not (s.isalpha() or s.isdigit())]
            words = [s for s in self._secrets if s.isalpha() or s.isdigit()]
            parts = [looks.alternatives(plain)] if plain else []
            parts += (
                [rf"(?<![A-Za-z0-9]){looks.alternatives(words)}(?![A-Za-z0-9])"] if words else []
            )
            self._hidden = re.compile("|".join(parts))
        return self._hidden

    # Identities and addresses.

    def number(self, value: int) -> int:
        """1, 2, … in the order of appearance; 0 means that there is none."""
        return self._numbers.setdefault(value, len(self._numbers) + 1) if value else 0

    def _hexadecimal(self, found: _Found) -> str:
        value = int(found[0], 16)
        # A stand-in stays, and no identity is as small.
        if value < 1 << 24:
            return found[0]
        return self._counted("identity", found[0], f"0x{self.number(value):016x}")

    def _uuid(self, found: _Found) -> str:
        return self._identity("uuid", "00000000-0000-0000-0000-{:012d}", found[0])

    def _identity(self, kind: str, form: str, value: str) -> str:
        if value.startswith(_STAND_INS):
            return value
        made = self._alias(kind, value.lower(), form)
        return self._counted("identity", value, made)

    def _ipv4(self, text: str) -> str:
        numbers = [int(part) for part in text.split(".")]
        if max(numbers) > 255 or numbers[0] in (0, 127, 255) or text.startswith(_OWN_NETS):
            return text
        known = self._aliases.get(("address", text))
        if known is None:
            self._n_of["address"] += 1
            n = self._n_of["address"]
            known = f"192.0.2.{n}" if n < 255 else f"198.18.{n >> 8 & 255}.{n & 255}"
            self._aliases["address", text] = known
        return self._counted("address", text, known)

    def _colons(self, found: _Found) -> str:
        """The IPv6 addresses among groups with colons, from the left, the longest that are some."""
        body, percent, zone = found[0].partition("%")
        groups = body.split(":")
        made = []
        at = 0
        while at < len(groups):
            length = _n_of_address(groups[at : at + 9])
            made.append(self._ipv6(":".join(groups[at : at + length])) if length else groups[at])
            at += length or 1
        is_last = bool(groups) and made[-1] != groups[-1]
        # The name of an interface belongs to the address before it.
        return ":".join(made) + ("" if is_last else percent + zone)

    def _ipv6(self, text: str) -> str:
        if text in ("::", "::1") or text.lower().startswith("2001:db8::"):
            return text
        made = self._alias("ipv6", str(ipaddress.IPv6Address(text)), "2001:db8::{:x}")
        return self._counted("address", text, made)

    # Names.

    def _between(self, found: _Found) -> str:
        """A host's name between what says that it is one."""
        return f"{found[1]}{self._unglued(found[2])}{found[3]}"

    def _unglued(self, name: str) -> str:
        """A host's name, before which a benchmark's last digit may stand without a blank."""
        glue = patterns.GLUED.match(name)
        rest = name[glue.end() :] if glue is not None else ""
        if rest.lower().partition(".")[0] in self._hosts and name.lower() not in self._hosts:
            return name[: -len(rest)] + self._replaced_host(rest)
        return self._replaced_host(name)

    def _replaced_host(self, name: str) -> str:
        if name.lower() == "localhost" or ALIAS.fullmatch(name) or looks.is_address(name):
            return name
        return self._counted("host", name, self._host(name))

    def _known_names(self) -> Pattern[str]:
        if self._names is None:
            parts = [
                patterns.AT,
                _HOME,
                r"(?<![\w/~.])~(?P<tilde_person>[A-Za-z][\w.-]*)",
                f"(?P<fqdn>{patterns.FQDN})",
                f"(?P<set>{patterns.NODE_SET})",
            ]
            if self._domains:
                parts.append(
                    rf"(?P<known_fqdn>(?<![\w.-])[\w.-]*?(?<![\w-]){looks.alternatives(self._domains)}(?![\w-]))"
                )
            if self._words:
                # A benchmark's last digit may stand before a name without a blank.
                parts.append(
                    rf"(?P<word>(?:(?<![A-Za-z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=N/A))"
                    rf"{looks.alternatives(self._words)}(?![A-Za-z0-9]))"
                )
            self._names = re.compile("|".join(parts), re.IGNORECASE)
        return self._names

    def _named(self, found: _Found) -> str:
        groups = found.groupdict()
        text: str = found[0]
        if groups["person"]:
            return self._at(groups["person"], groups["at_host"])
        if groups["home_person"] or groups["tilde_person"]:
            before = groups["home"] or "~"
            return before + self._replaced_user(groups["home_person"] or groups["tilde_person"])
        if groups["set"]:
            return self._several(groups["head"], text)
        if groups["fqdn"] or groups.get("known_fqdn"):
            return self._unglued(text)
        return self._word_of(text)

    def _several(self, head: str, text: str) -> str:
        """``node[001-064]``, where a node007 is known."""
        if head.lower() in self._heads:
            return self._counted("host", text, self._alias("hosts", text.lower()))
        return self._word_of(head) + text[len(head) :]

    def _word_of(self, text: str) -> str:
        kind, alias = self._words.get(text.lower(), ("", text))
        return self._counted(kind, text, alias)

    def _at(self, person: str, host: str) -> str:
        who = person
        if not person.isdigit() and person.lower() not in self._protected:
            who = self._replaced_user(person)
        return f"{who}@{self._replaced_host(host)}"

    def _replaced_user(self, name: str) -> str:
        if ALIAS.fullmatch(name) or not re.search(r"\w", name):
            return name
        return self._counted("user", name, self._user(name))

    def host(self, name: str) -> str:
        """The stand-in of what is known to be a host's name, whatever it looks like."""
        return self._replaced_host(name)


def _n_of_address(groups: list[str]) -> int:
    """How many groups from the first one on are an IPv6 address; 0 where none is."""
    if not _HEXTET.fullmatch(groups[0]):
        return 0
    lengths = range(len(groups), 2, -1)
    return next((n for n in lengths if looks.is_ipv6(":".join(groups[:n]))), 0)


def _is_worth_hiding(value: object) -> bool:
    """Whether what has a secret's name is one; a small number counts something."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 100_000
    return isinstance(value, str) or is_number
