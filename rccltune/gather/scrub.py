"""One way to take names and secrets out of any text; what was equal stays equal.

Names are learnt first, from all that is sent: where a log says ``on node17 device``, node17 is a
host, and then it is one everywhere. What is left out of such places is told by its looks.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from typing import Any, Iterable, Match

from . import patterns
from .variables import is_listed, is_secret

# Names that name nobody. Who has one of them as a name of a host or of a person keeps it, where
# nothing beside it says that it is one.
_ORDINARY = frozenset(
    [
        "root",
        "localhost",
        "home",
        "user",
        "users",
        "admin",
        "host",
        "hosts",
        "node",
        "nodes",
        "gpu",
        "gpus",
        "rank",
        "ranks",
        "local",
        "remote",
        "opt",
        "usr",
        "lib",
        "lib64",
        "bin",
        "var",
        "tmp",
        "etc",
        "dev",
        "sys",
        "proc",
        "share",
        "include",
        "build",
        "src",
        "data",
        "main",
        "test",
        "tests",
        "scratch",
        "work",
        "project",
        "projects",
        "shared",
        "software",
        "apps",
        "rocm",
        "rccl",
        "nccl",
        "amd",
        "nvidia",
        "hip",
        "cuda",
        "mpi",
        "openmpi",
        "mpich",
        "intel",
        "slurm",
        "torch",
        "python",
        "python3",
        "rccltune",
        "rccl-tests",
        "nccl-tests",
        "mpirun",
        "mpiexec",
        "orterun",
        "prterun",
        "srun",
        "proxy",
        "hydra",
        "git",
        "github",
        "ubuntu",
        "debian",
        "linux",
        "secret",
        "value",
        "mail",
        "address",
        "domain",
        "serial",
        "info",
        "warn",
        "error",
        "debug",
        "trace",
        "version",
        "using",
        "device",
        "devices",
        "size",
        "count",
        "type",
        "time",
        "redop",
        "busbw",
        "algbw",
        "wrong",
        "float",
        "half",
        "double",
        "bfloat16",
        "uint8",
        "int8",
        "sum",
        "prod",
        "min",
        "max",
        "avg",
        "in-place",
        "out-of-place",
        "none",
        "null",
        "true",
        "false",
        "yes",
        "off",
        "default",
        "auto",
        "unknown",
        "simulated",
        "sim",
        "begin",
        "end",
        "rules",
        "schedule",
        "silent",
        "baseline",
        "step",
        "calls",
        "comm",
        "this",
        "the",
        "for",
        "and",
        "not",
        "with",
        "session",
    ]
)
_ALIAS = re.compile(r"(?:hosts?|user|secret|value|serial)-\d+")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}")
_CACHED_LINES = 200_000
_Found = Match[str]


class Scrubber:
    """Replaces what tells one machine, person or site from another.

    Attributes:
        counts: replacements so far, by kind: host, user, address, identity, secret, value.
    """

    def __init__(self, protected: Iterable[str] = ()) -> None:
        """Start knowing nobody.

        Args:
            protected: words of the formats that must stay readable; no name is one of them.
        """
        self.counts: Counter[str] = Counter()
        self._protected = _ORDINARY | {word.lower() for word in protected}
        self._aliases: dict[tuple[str, str], str] = {}
        self._n_of: Counter[str] = Counter()
        self._words: dict[str, tuple[str, str]] = {}
        self._hosts: set[str] = set()
        self._domains: set[str] = set()
        self._heads: set[str] = set()
        self._secrets: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._names: re.Pattern[str] | None = None
        self._hidden: re.Pattern[str] | None = None
        self._lines: dict[tuple[str, bool], tuple[str, Counter[str]]] = {}
        self._learnt: set[str] = set()

    # What is known.

    def know_host(self, name: str) -> None:
        """A host, by its full or its short name; both get the same alias."""
        name = name.strip(".").lower()
        if not _NAME.fullmatch(name) or not re.search("[a-z]", name) or _is_address(name):
            return
        if name == "localhost" or _ALIAS.fullmatch(name):
            return
        short, _, domain = name.partition(".")
        self._hosts.add(short)
        alias = self._host(short)
        self._word(name, "host", alias)
        self._word(short, "host", alias)
        numbered = re.fullmatch(r"(.*[a-z_-])\d+\D*", short)
        if numbered is not None:
            self._heads.add(numbered[1])
        if domain and domain not in self._protected and domain not in ("local", "localdomain"):
            self._domains.add(domain)
        self._forget_lines()

    def know_user(self, name: str) -> None:
        """A person, by the name of the account or the whole name."""
        name = name.strip().lower()
        if name in self._protected or _ALIAS.fullmatch(name) or "\n" in name:
            return
        if len(name) > 2 and re.search(r"[^\W\d_]", name):
            self._word(name, "user", self._user(name))

    def know_secret(self, value: str) -> None:
        """A secret, which is one wherever it occurs; short and everyday words are not known."""
        value = value.strip("\"'")
        is_number = value.isdigit() and len(value) < 8
        if len(value) < 6 or is_number or value.startswith("/") or _ALIAS.fullmatch(value):
            return
        if value.lower() not in self._protected and value not in self._secrets:
            self._secrets[value] = self._alias("secret", value)
            self._hidden = None
            self._forget_lines()

    def know_digest(self, old: str, new: str | None = None) -> None:
        """A file's SHA-256, which stays as it is, or becomes that of the scrubbed file."""
        self._digests[old.lower()] = new or old
        self._forget_lines()

    def _word(self, word: str, kind: str, alias: str) -> None:
        if 2 < len(word) <= 200 and word not in self._protected and word not in self._words:
            self._words[word] = (kind, alias)
            escaped = ascii(word)[1:-1].replace("\\x", "\\u00")
            # As JSON has it where it was written in ASCII.
            self._words.setdefault(escaped, (kind, alias))
            self._names = None
            self._forget_lines()

    def _forget_lines(self) -> None:
        self._lines.clear()

    # Learning.

    def learn(self, text: str) -> None:
        """Find names and secrets by what stands beside them, to know them everywhere."""
        for line in text.split("\n"):
            if line not in self._learnt:
                if len(self._learnt) > _CACHED_LINES:
                    self._learnt.clear()
                self._learnt.add(line)
                self._learn_line(line)

    def learn_file_name(self, name: str) -> None:
        """Names of files that each host writes for itself."""
        found = patterns.PER_HOST_FILE.fullmatch(name)
        if found is not None:
            self.know_host(found[2])

    def _learn_line(self, line: str) -> None:
        for digest in patterns.DIGEST.findall(line):
            self._digests.setdefault(digest.lower(), digest)
        for found in patterns.RANK.finditer(line):
            self.know_host(found[2])
        for found in patterns.LOG_HEAD.finditer(line):
            if not found[1].isspace() or not patterns.GLUED.match(found[2]):
                self.know_host(found[2])
        for found in patterns.STARTED.finditer(line):
            self.know_host(found[2])
        for pattern in patterns.HOSTS_SAID:
            for name in pattern.findall(line):
                self.know_host(name)
        for names in patterns.HOST_LISTS.findall(line):
            self.know_hosts(names)
        for pattern in patterns.USERS_SAID:
            for name in pattern.findall(line):
                self.know_user(name)
        for found in _HOME.finditer(line):
            self.know_user(found["person"])
        if "@" in line:
            self._learn_at(line)
        if patterns.SECRET_HINT.search(line):
            self._learn_secrets(line)

    def _learn_at(self, line: str) -> None:
        for found in patterns.URL.finditer(line):
            password = (found[1] or "")[:-1].partition(":")[2]
            self.know_secret(password)
        for found in _AT.finditer(patterns.URL.sub("://", line)):
            if not found["person"].isdigit():
                self.know_user(found["person"])
            if "." not in found["at_host"]:
                self.know_host(found["at_host"])

    def _learn_secrets(self, line: str) -> None:
        for pattern in (patterns.ASSIGNED, patterns.SECRET_SAID, patterns.OPTION):
            for found in pattern.finditer(line):
                if is_secret(found["name"]):
                    self.know_secret(_without_scheme(_bare(found["value"])[0]))

    def know_hosts(self, names: str) -> None:
        """A list with commas, each perhaps with its number of slots."""
        for name in names.split(","):
            self.know_host(name.partition(":")[0])

    def learn_plain(self, value: Any, key: str = "") -> None:  # noqa: ANN401 - of a JSON file
        """The same of what stood in a JSON file."""
        if isinstance(value, dict):
            for name, inside in value.items():
                self.learn(str(name))
                # A host of hosts.json is a record that has its name.
                self.learn_plain(inside, "host" if (key, name) == ("hosts", "name") else str(name))
            return
        if isinstance(value, list):
            before = ""
            for item in value:
                if isinstance(item, str) and before in patterns.HOST_OPTIONS:
                    self.know_hosts(item)
                if isinstance(item, str) and _is_secret_word(before):
                    self.know_secret(item)
                self.learn_plain(item, key)
                before = item if isinstance(item, str) else ""
            return
        if not isinstance(value, str):
            return
        if key in ("host", "hosts", "hostname"):
            self.know_host(value)
        elif key in ("user", "username"):
            self.know_user(value)
        elif "sha256" in key and re.fullmatch("[0-9a-fA-F]{64}", value):
            self._digests.setdefault(value.lower(), value)
        elif is_secret(key):
            self.know_secret(value)
        self.learn(value)

    # Replacing.

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
        """What stood in a JSON file, with the replacements; numbers of secrets go too."""
        if isinstance(value, dict):
            return {
                k if _KEY.fullmatch(k) else self.text(k): self._entry(v, k, key)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return self._list(value, key)
        if value is None or isinstance(value, bool):
            return value
        if is_secret(key):
            return self._secret(str(value))
        if not isinstance(value, str):
            return value
        if key in ("host", "hosts", "hostname") and _NAME.fullmatch(value):
            return self._counted("host", value, self._host(value))
        if key in ("serial", "serial_number", "asset_tag", "unique_id"):
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
            if isinstance(item, str) and _is_secret_word(before):
                made.append(self._secret(item))
            elif isinstance(item, str) and _VARIABLE.fullmatch(before) and not is_listed(before):
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
        if _ALIAS.fullmatch(value):
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
            if _ALIAS.fullmatch(value)
            else self._counted("value", value, self._alias("value", value))
        )

    def _url(self, found: _Found) -> str:
        person = ""
        if found[1]:
            person = self._secret(found[1][:-1]) + "@"
        host = found[2] or ""
        if host and not _is_address(host) and host.lower() != "localhost":
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
        plain, behind = _bare(value)
        if not plain or (is_listed(name) and not is_secret(name)):
            return found[0]
        head = found[0][: len(found[0]) - len(value)]
        made = self._value(name, plain)
        return f"{head}{value.replace(plain, made, 1) if value[0] in _QUOTES else made + behind}"

    def _said(self, found: _Found) -> str:
        plain, behind = _bare(found["value"])
        if not plain or not is_secret(found["name"]) or _ALIAS.fullmatch(plain):
            return found[0]
        self.know_secret(_without_scheme(plain))
        quote = found["value"][0] if found["value"][0] in _QUOTES else ""
        return f"{found['name']}{found['sep']}{quote}{self._secret(plain)}{quote or behind}"

    def _long(self, text: str) -> str:
        """Long strings that nobody wrote: keys. Digests of files are known."""
        if len(text) == 64 and text.lower() in self._digests:
            return self._digests[text.lower()]
        if "/" in text:
            if len(text) >= 40 and _is_base64(text):
                return self._secret(text)
            return patterns.SEGMENT.sub(lambda m: self._long(m[0]), text)
        if text.startswith("_Z"):
            return text
        return self._secret(text) if _is_random(text) else text

    def _hidden_words(self) -> re.Pattern[str]:
        if self._hidden is None:
            plain = [s for s in self._secrets if not (s.isalpha() or s.isdigit())]
            words = [s for s in self._secrets if s.isalpha() or s.isdigit()]
            parts = [_alternatives(plain)] if plain else []
            parts += [rf"(?<![A-Za-z0-9]){_alternatives(words)}(?![A-Za-z0-9])"] if words else []
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
        if (
            max(numbers) > 255
            or numbers[0] in (0, 127, 255)
            or text.startswith(("192.0.2.", "198.18."))
        ):
            return text
        known = self._aliases.get(("address", text))
        if known is None:
            self._n_of["address"] += 1
            n = self._n_of["address"]
            known = f"192.0.2.{n}" if n < 255 else f"198.18.{n >> 8 & 255}.{n & 255}"
            self._aliases["address", text] = known
        return self._counted("address", text, known)

    def _colons(self, found: _Found) -> str:
        """The IPv6 addresses among groups with colons: the longest that are some."""
        text = found[0]
        body, percent, zone = text.partition("%")
        groups = body.split(":")
        for length in range(min(len(groups), 9), 2, -1):
            for start in range(len(groups) - length + 1):
                one = ":".join(groups[start : start + length])
                if _is_ipv6(one):
                    before = "".join(f"{group}:" for group in groups[:start])
                    after = "".join(f":{group}" for group in groups[start + length :])
                    rest = f"%{zone}" if percent and after else ""
                    return f"{before}{self._ipv6(one)}{after}{rest}"
        return text

    def _ipv6(self, text: str) -> str:
        if text in ("::", "::1") or text.lower().startswith("2001:db8::"):
            return text
        made = self._alias("ipv6", str(ipaddress.IPv6Address(text)), "2001:db8::{:x}")
        return self._counted("address", text, made)

    # Names.

    def _host(self, name: str) -> str:
        name = name.strip(".").lower()
        short = name.partition(".")[0]
        return self._alias("host", short if short in self._hosts else name)

    def _user(self, name: str) -> str:
        return self._alias("user", name.lower())

    def _between(self, found: _Found) -> str:
        """A host's name between what says that it is one."""
        name = found[2]
        glue = patterns.GLUED.match(name)
        if glue is not None and name.lower() not in self._hosts:
            if name[glue.end() :].lower().partition(".")[0] in self._hosts:
                return f"{found[1]}{glue[0]}{self._replaced_host(name[glue.end() :])}{found[3]}"
        return f"{found[1]}{self._replaced_host(name)}{found[3]}"

    def _replaced_host(self, name: str) -> str:
        if name.lower() == "localhost" or _ALIAS.fullmatch(name) or _is_address(name):
            return name
        return self._counted("host", name, self._host(name))

    def _known_names(self) -> re.Pattern[str]:
        if self._names is None:
            parts = [
                patterns.AT,
                _HOME_PARTS,
                "(?P<tilde>(?<![\\w/~.])~(?P<tilde_person>[A-Za-z][\\w.-]*))",
                f"(?P<fqdn>{patterns.FQDN})",
                f"(?P<set>{patterns.NODE_SET})",
            ]
            if self._domains:
                parts.append(
                    rf"(?P<known_fqdn>(?<![\w.-])[\w.-]*?(?<![\w-]){_alternatives(self._domains)}(?![\w-]))"
                )
            if self._words:
                # A benchmark's last digit may stand before a name without a blank.
                parts.append(
                    rf"(?P<word>(?:(?<![A-Za-z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=N/A))"
                    rf"{_alternatives(self._words)}(?![A-Za-z0-9]))"
                )
            self._names = re.compile("|".join(parts), re.IGNORECASE)
        return self._names

    def _named(self, found: _Found) -> str:
        groups = found.groupdict()
        text: str = found[0]
        if groups["person"]:
            return self._at(groups["person"], groups["at_host"])
        if groups["home"]:
            return groups["home"] + self._replaced_user(groups["home_person"])
        if groups["tilde"]:
            return "~" + self._replaced_user(groups["tilde_person"])
        if groups["fqdn"] or groups.get("known_fqdn"):
            return self._dotted(text)
        if groups["set"]:
            if groups["head"].lower() in self._heads:
                return self._counted("host", text, self._alias("hosts", text.lower()))
            return self._only_words(groups["head"]) + text[len(groups["head"]) :]
        kind, alias = self._words[text.lower()]
        return self._counted(kind, text, alias)

    def _only_words(self, text: str) -> str:
        known = self._words.get(text.lower())
        return text if known is None else self._counted(known[0], text, known[1])

    def _dotted(self, name: str) -> str:
        glue = patterns.GLUED.match(name)
        if glue is not None:
            rest = name[glue.end() :]
            if rest.lower().partition(".")[0] in self._hosts:
                return glue[0] + self._replaced_host(rest)
        return self._replaced_host(name)

    def _at(self, person: str, host: str) -> str:
        who = person
        if not person.isdigit() and person.lower() not in self._protected:
            who = self._replaced_user(person)
        return f"{who}@{self._replaced_host(host)}"

    def _replaced_user(self, name: str) -> str:
        if _ALIAS.fullmatch(name) or not re.search(r"\w", name):
            return name
        return self._counted("user", name, self._user(name))

    # Stand-ins.

    def _alias(self, kind: str, key: str, form: str = "") -> str:
        if _ALIAS.fullmatch(key):
            return key
        known = self._aliases.get((kind, key))
        if known is None:
            self._n_of[kind] += 1
            known = self._aliases[kind, key] = (form or kind + "-{}").format(self._n_of[kind])
        return known

    def _counted(self, kind: str, old: str, new: str) -> str:
        if old != new:
            self.counts[kind] += 1
        return new

    def host(self, name: str) -> str:
        """The stand-in of what is known to be a host's name, whatever it looks like."""
        return self._replaced_host(name)

    def names(self) -> tuple[tuple[str, str], ...]:
        """(name, stand-in) of every host and person that is known, for its owner alone."""
        return tuple(
            (key, alias) for (kind, key), alias in self._aliases.items() if kind in ("host", "user")
        )


_STAND_INS = ("00000000-0000-0000-0000-", "0200:0000:0000:", "02:00:00:00:00:")
_QUOTES = ("'", '"')
_SCHEMES = ("bearer", "basic", "token", "digest", "negotiate")
# The words of our own records; hosts and people are no keys there.
_KEY = re.compile(r"[a-z_]+|\w+_sha256")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")
_HOME_PARTS = rf"(?P<home>{patterns.HOMES})(?P<home_person>{patterns.SEGMENT_OF_PATH})"
_HOME = re.compile(rf"(?i){patterns.HOMES}(?P<person>{patterns.SEGMENT_OF_PATH})")
_AT = re.compile(patterns.AT)


def _bare(value: str) -> tuple[str, str]:
    """A value without quotes, and the marks behind it that belong to the sentence."""
    if value[:1] in _QUOTES:
        return value.strip(value[0]), ""
    plain = value.rstrip("\"',;)]}>")
    return plain, value[len(plain) :]


def _without_scheme(value: str) -> str:
    scheme, _, rest = value.partition(" ")
    return rest.strip() if scheme.lower() in _SCHEMES else value


def _is_secret_word(word: str) -> bool:
    """Whether the next of a list is a secret: behind --password, or behind a variable's name."""
    is_name = word.startswith("-") or _VARIABLE.fullmatch(word)
    return bool(is_name) and "=" not in word and len(word) < 80 and is_secret(word)


def _is_address(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", text))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _kind(letter: str) -> str:
    return "digit" if letter.isdigit() else "upper" if letter.isupper() else "lower"


def _changes(text: str) -> int:
    """How often digits, small and capital letters take turns."""
    return sum(_kind(a) != _kind(b) for a, b in zip(text, text[1:]))


def _is_random(text: str) -> bool:
    """Whether letters and digits take turns as in no word: in all of it, or in a long part."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    whole = "".join(parts)
    candidates = [part for part in parts if len(part) >= 20]
    if len(whole) >= 20 and len(parts) - 1 <= len(whole) // 10:
        candidates.append(whole)
    return any(
        _changes(one) >= 0.3 * len(one) and any(map(str.isdigit, one)) and not one.isdigit()
        for one in candidates
    )


def _is_base64(text: str) -> bool:
    """Whether a text with slashes is no path: capitals everywhere, and digits."""
    n_upper, n_lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    many = len(text) * 0.15
    return min(n_upper, n_lower) > many and _changes(text) >= 0.35 * len(text)


def _alternatives(words: Iterable[str]) -> str:
    """A pattern for any of many words, the longest first, that reads each letter once."""
    by: dict[str, list[str]] = {}
    for word in words:
        by.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(first) + _alternatives(by[first]) for first in sorted(by) if first]
    if not branches:
        return ""
    if len(branches) == 1 and "" not in by:
        return branches[0]
    return f"(?:{'|'.join(branches)}){'?' if '' in by else ''}"
