"""env.sh: what a job sources. POSIX sh, under ``set -eu`` too.

It names its own version's folder, never ``current``: all ranks of a job that is started while the
link is switched must read the same rules.
"""

from __future__ import annotations

import shlex
from typing import Final

from rccltune.deploy.records import Delivery, header, remark

# Where this file is, only the shell can say, and not every shell does. What others cannot parse
# stands in eval. RCCLTUNE_DEPLOY_DIR helps where a folder was moved and the shell is dash.
_FIND: Final = """
_rccltune_at=''
if [ -n "${BASH_VERSION:-}" ]; then
    eval '_rccltune_at=${BASH_SOURCE[0]:-}'
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_rccltune_at=${(%):-%x}'
fi
if [ -n "$_rccltune_at" ]; then
    case $_rccltune_at in
    */*) _rccltune_at=${_rccltune_at%/*}/ ;;
    *) _rccltune_at=. ;;
    esac
    _rccltune_at=$(CDPATH='' cd "$_rccltune_at" 2>/dev/null && pwd) || _rccltune_at=''
fi
_rccltune_here=''
for _rccltune_try in \\
    ${RCCLTUNE_DEPLOY_DIR:+"$RCCLTUNE_DEPLOY_DIR/versions/$_rccltune_version"} \\
    ${RCCLTUNE_DEPLOY_DIR:+"$RCCLTUNE_DEPLOY_DIR"} \\
    "$_rccltune_at/versions/$_rccltune_version" \\
    "${_rccltune_at%/*}/$_rccltune_version" \\
    "${_rccltune_at%/*}/versions/$_rccltune_version" \\
    "$_rccltune_at" \\
    "$_rccltune_written/versions/$_rccltune_version"; do
    if [ -r "$_rccltune_try/$_rccltune_plugin" ] && [ -r "$_rccltune_try/MANIFEST" ]; then
        IFS= read -r _rccltune_old <"$_rccltune_try/MANIFEST" || :
        case $_rccltune_old in
        *"version $_rccltune_version")
            _rccltune_here=$_rccltune_try
            break
            ;;
        esac
    fi
done
# Values below it are another version's, and give way.
_rccltune_ours=$_rccltune_here
case $_rccltune_here in
*/versions/"$_rccltune_version") _rccltune_ours=${_rccltune_here%/*} ;;
esac
"""
_FUNCTIONS: Final = """
_rccltune_say() {
    printf 'rccltune: %s\\n' "$*" >&2
}
# Set NAME to VALUE, unless the user has set it to something else.
_rccltune_set() {
    eval "_rccltune_old=\\${$1-}"
    case $_rccltune_old in
    '' | "$2" | "$_rccltune_ours"/*)
        eval "$1=\\$2"
        export "${1?}"
        ;;
    *)
        _rccltune_say "$1 is set to '$_rccltune_old' and stays so;" \\
            "the rules in $_rccltune_here were made for '$2'"
        return 1
        ;;
    esac
}
# What an earlier version in the same folder had set, and this one does not.
_rccltune_forget() {
    eval "_rccltune_old=\\${$1-}"
    case $_rccltune_old in
    "$_rccltune_ours"/*) unset "$1" ;;
    esac
}
"""
_END: Final = """
unset -f _rccltune_say _rccltune_set _rccltune_forget
unset _rccltune_version _rccltune_written _rccltune_plugin _rccltune_at _rccltune_here
unset _rccltune_try _rccltune_old _rccltune_ours
"""
_RULES_VARIABLES: Final = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR")


def environment_script(delivery: Delivery, version: str) -> str:
    """The text of env.sh."""
    lines = [
        *header(delivery, version),
        f"# Source it before the job starts: . {_quoted(delivery, 'env.sh')}",
        "# A variable that is set to something else stays as it is, with a warning.",
        f"_rccltune_version={version}",
        f"_rccltune_written={shlex.quote(str(delivery.directory))}",
        f"_rccltune_plugin={delivery.library.name}",
    ]
    return "\n".join(lines) + _FIND + _FUNCTIONS + "\n".join(_body(delivery)) + _END


def _quoted(delivery: Delivery, name: str) -> str:
    return shlex.quote(str(delivery.directory / name))


def _body(delivery: Delivery) -> list[str]:
    other = next(name for name in _RULES_VARIABLES if name != delivery.rules_variable)
    rules = delivery.rules_path("$_rccltune_here")
    lines = [
        'if [ -z "$_rccltune_here" ]; then',
        '    _rccltune_say "version $_rccltune_version is neither in $_rccltune_written" \\',
        '        "nor beside env.sh; nothing is set (RCCLTUNE_DEPLOY_DIR names its folder)"',
        "    unset -f _rccltune_say _rccltune_set _rccltune_forget",
        "    return 1",
        "fi",
    ]
    if delivery.simulated:
        lines += [f"_rccltune_say {shlex.quote(remark(delivery))}"]
    # A foreign plugin reads other rules, and environment without its rules may harm.
    lines += [
        'if _rccltune_set NCCL_TUNER_PLUGIN "$_rccltune_here/$_rccltune_plugin"; then',
        f"    _rccltune_forget {other}",
        f'    if [ -n "${{{other}:-}}" ]; then',
        f"        _rccltune_say \"{other} is set to '${other}' and stays so: the job's rules\" \\",
        '            "are those, and nothing is set for ours"',
        f'    elif _rccltune_set {delivery.rules_variable} "{rules}"; then',
        *(
            f"        _rccltune_set {name} {shlex.quote(value)} || :"
            for name, value in delivery.environment
        ),
        *_declaration(delivery),
        "        :",
        "    fi",
        "else",
        '    _rccltune_say "so nothing else of it is set either"',
        "fi",
    ]
    return lines


def _declaration(delivery: Delivery) -> list[str]:
    """A placement is the job's own, and only the user knows it: it is asked for, not declared."""
    names = delivery.placements
    if not names:
        return []
    listed = " or ".join(names)
    return [
        '        if [ -z "${RCCLTUNE_PLACEMENT:-}" ]; then',
        f'            _rccltune_say "these rules are for jobs whose ranks lie as {listed};" \\',
        f'                "export RCCLTUNE_PLACEMENT={names[0]} where they do"',
        "        fi",
    ]
