"""What secrets, identities and the places where names stand look like."""

from __future__ import annotations

import re

# Without its end only what looks like a key's lines goes.
KEY_BLOCK = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]{1,40})-----"
    r"(?:(?:(?!-----BEGIN ).){1,65536}?-----END (?P=what)-----|(?:\s*[A-Za-z0-9+/=]{16,})*)",
    re.DOTALL,
)
# A password may hold an @ that should have been escaped: up to the last one of the word.
URL = re.compile(r"://([^\s\"'<>]{0,1024}@)?([A-Za-z0-9](?:[\w.-]*\w)?)?")
QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
# NAME=value as shells have it, the whole in quotes or the value alone.
ASSIGNED = re.compile(
    rf"(?P<quote>[\"'])?(?<![\w.-])(?P<name>[A-Z][A-Z0-9_]{{2,}})="
    rf"(?P<value>(?(quote)[^\"'\n]*|(?:{QUOTED}|\S*)))"
)
SECRET_SAID = re.compile(
    r"(?i)(?<![\w.-])(?P<name>[\w.-]{0,64}?(?:pass|pw|psk|secret|token|key|auth|cred|bearer|cookie|"
    r"signature)[\w.-]{0,64})(?P<sep>[\"']?[ \t]*[=:][ \t]*)"
    rf"(?P<value>{QUOTED}|(?:(?:Bearer|Basic|Token|Digest|Negotiate)[ \t]+)?\S+)"
)
SECRET_HINT = re.compile(r"(?i)pass|pw|psk|secret|token|key|auth|cred|bearer|cookie|signature")
OPTION = re.compile(
    r"(?i)(?<![\w-])(?P<name>--?[\w-]{0,40}(?:pass|secret|token|key|auth|cred)[\w-]{0,40})"
    rf"(?P<sep>[ \t]+)(?P<value>{QUOTED}|[^\s-]\S*)"
)
TOKEN = re.compile(
    r"\b(?:gh[opusr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl[a-z]{2,5}-[\w-]{16,}|"
    r"xox[a-z]-[\w-]{8,}|sk-[\w-]{16,}|(?:AKIA|ASIA|AGPA|AROA)[0-9A-Z]{12,}|AIza[\w-]{30,}|"
    r"hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|nvapi-[\w-]{16,}|"
    r"ya29\.[\w.-]{16,}|SG\.[\w-]{8,}\.[\w-]{8,}|eyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?|"
    r"AAAA[A-Za-z0-9+/]{20,}={0,2})|(?<=Bearer )(?=\S*\d)\S{8,}|(?<=Basic )(?=\S*[\d=])\S{8,}"
)
LONG = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
SEGMENT = re.compile(r"[A-Za-z0-9+_-]{20,}={0,2}")
DIGEST = re.compile(r"(?i)sha-?256\W{1,4}([0-9a-f]{64})\b")

UUID = re.compile(
    r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F])"
)
MAC = re.compile(
    r"(?<![\w:])[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?![\w:])"
)
GUID = re.compile(r"(?<![\w:])[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}(?![\w:])")
# What IPv6 addresses are among; ipaddress says which of it is one.
COLONS = re.compile(r"(?<![0-9A-Za-z.])[0-9A-Za-z.]*(?::[0-9A-Za-z.]*){2,}(?:%[\w.-]+)?")
IPV4 = re.compile(r"(?<![\w.])(?<!version )(?<!version: )\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)")
# A GPU's serial number is 16 hexadecimal digits in amd-smi and a decimal unique_id in KFD.
LONG_HEX = re.compile(r"\b0x[0-9a-fA-F]{13,16}\b")
SERIAL = re.compile(
    r"(?i)((?:serial|asset)[\w ]{0,40}\"?[ \t]*[:=][ \t]*\"?)((?!0x)[A-Za-z0-9][\w-]{3,})"
)

# Suffixes that a name must end in to be taken for a host's without being known for one. Of those
# that are also suffixes of files (so, py, sh, md, cc, pl, rs …) none is.
_LONG_SUFFIX = """
    com org net edu gov mil int info biz local localdomain lan intranet internal corp cluster
    hpc home arpa cloud site tech systems computer science ai io dev app
"""
_COUNTRY = """
    ac ad ae af ag al am ao ar au az ba bb bd bg bh bn br bw by bz ca cd cf cg ch ci cl cm cn co
    cr cu cy cz de dj dk dz ec ee eg es et eu fi fj fr ga ge gh gm gr gt hk hn hr hu ie il iq ir
    is jm jo jp ke kg kh kr kw kz la lb lk lt lu lv ly ma mg mk mm mn mo mt mu mv mx mz na ng ni
    nl np nu nz om pa pe ph pk pr pt pw qa ro ru rw sa sc sd se sg si sk sl sn su sv sy td th tj
    tm tn tr tt tv tw tz ua ug uk uy uz va ve vn ye za zm zw
"""
# Words of programs too: x.to(device). Only behind two dots.
_WORDLIKE = "as at be by do id in it me my no or to us"
_LABEL = r"[A-Za-z0-9](?:[\w-]{0,61}[A-Za-z0-9])?"
_SUFFIXES = "|".join(f"{_LONG_SUFFIX} {_COUNTRY}".split())
FQDN = (
    rf"(?<![\w.-])(?:(?:{_LABEL}\.)+(?:{_SUFFIXES})|(?:{_LABEL}\.){{2,}}(?:{'|'.join(_WORDLIKE.split())}))"
    r"(?![\w-]|\.\w)"
)
HOMES = r"/(?:home\d*|homes|nethome|users|people|scratch\d*)/(?:users/)?"
SEGMENT_OF_PATH = r"[^/\s:;,\"'<>()\[\]{}|\\=]+"

# Where a host's name stands, whatever it looks like.
RANK = re.compile(r"(\b[Pp]id +\d+ on +)(\S+)( device)")
LOG_HEAD = re.compile(r"(^|[\s>\]])([^\s:>\]]+)(:\d+:\d+ \[-?\d+\] (?:\S+ ){0,2}[NR]CCL )")
GLUED = re.compile(r"-?\d+(?=[A-Za-z])|N/A(?=[A-Za-z])")
STARTED = re.compile(r"(\b(?:prterun|prte|orterun|mpirun)-)([\w.-]{1,255}?)(-\d+@)")
PER_HOST_FILE = re.compile(
    r"((?:trace|nccl|plugin|record)-)([^/\s]{1,255}?)((?:-\d+)(?:-[0-9a-f]+)?(?:-\d+)?\.\w+)"
)
HOSTS_SAID = (
    re.compile(
        r"(?i)\b(?:local host|remote host|hostname|node ?name)\"?[ \t]*[:=]?[ \t]+\"?([\w.-]+)"
    ),
    re.compile(r"(?i)\bon (?:node|host) \"?([\w.-]*\d[\w.-]*)"),
    re.compile(r"\bsrun: (?:error: |warning: )?([\w.-]+): tasks?\b"),
    re.compile(r"\bON ([\w.-]+) CANCELLED"),
    re.compile(
        r"\b(?:HOSTNAME|HOST|SLURMD_NODENAME|SLURM_SUBMIT_HOST|SLURM_TOPOLOGY_ADDR|MASTER_ADDR|"
        r"PBS_O_HOST|PMIX_HOSTNAME)=\"?([\w.-]+)"
    ),
    re.compile(r"(?m)^([\w.-]+)[ \t]+slots[ \t]*="),
    re.compile(r"#@ comm .*\bhost=([\w.-]+)"),
)
HOST_LISTS = re.compile(r"(?<![\w-])(?:--hosts?|-host|-H|--nodelist)[ =]([\w.,:-]+)")
HOST_OPTIONS = ("--host", "--hosts", "-host", "-hosts", "-H", "--nodelist", "-w")
USERS_SAID = (
    re.compile(r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER)=\"?([\w.-]+)"),
    re.compile(r"\buid=\d+\(([^)\s]{1,64})\)"),
    re.compile(r"(?i)\b(?:user|username|login)\"?[ \t]*[:=][ \t]*\"?([A-Za-z_][\w.-]+)"),
)
AT = r"(?<![\w.+-])(?P<person>[\w.+-]+)@(?P<at_host>[A-Za-z][\w.-]*\w|[A-Za-z])"
NODE_SET = r"(?<![\w.-])(?P<head>[A-Za-z](?:[\w.-]*[A-Za-z_-])?)\[\d+(?:[-,…]\d*)*\]\w*"
