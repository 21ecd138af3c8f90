"""The part of check.sh that looks at a job: its environment and what is read into it."""

from __future__ import annotations

from typing import Final

OVERRIDING: Final = ("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_*", "RCCLTUNE_SCHEDULE")
VARIABLES: Final = r"""
# Whether a path is in this folder, by whatever name: links, and several mounts of one folder.
is_here() {
    case $1 in
    /*) ;;
    *) return 1 ;;
    esac
    folder=$1
    [ -d "$1" ] || folder=${1%/*}/
    [ "$(cd -P "$folder" 2>/dev/null && pwd -P)" = "$(cd -P "$here" && pwd -P)" ] && return
    # POSIX has no -ef, but every /bin/sh has.
    # shellcheck disable=SC3013
    [ "$folder" -ef "$here" ] 2>/dev/null
}
loaded=no
judge() {
    case $1 in
    NCCL_TUNER_PLUGIN)
        if is_here "$2" && [ "${2##*/}" = "$plugin" ]; then
            loaded=yes
        else
            loaded=other
            fail "$3: $1=$2 is not this version's plugin"
        fi
        ;;
    NCCL_TUNER_CONFIG_FILE | RCCLTUNE_CONFIG_DIR)
        is_here "$2" || fail "$3: $1=$2 are not this version's rules"
        ;;
    RCCLTUNE_MODE)
        case $2 in
        auto | "$mode") ;;
        *) [ -z "$mode" ] || fail "$3: $1=$2, and the rules are for $mode" ;;
        esac
        ;;
    RCCLTUNE_CLI_* | RCCLTUNE_DEPLOY_DIR | RCCLTUNE_LOG) ;;
    RCCLTUNE_PLACEMENT | RCCLTUNE_TRACE | RCCLTUNE_RECORD | RCCLTUNE_STRICT) ;;
    @NEEDS@)
        wanted "$1"
        [ "$2" = "$want" ] || fail "$3: $1=$2, and the rules need $1=$want"
        ;;
    @OVERRIDING@)
        fail "$3: $1=$2 overrides what the rules choose"
        ;;
    @CHOOSING@)
        warn "$3: $1=$2 was not set where the rules were measured"
        ;;
    esac
}
check_variables() {
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
        eval "value=\${$name-}"
        [ -z "$value" ] || judge "$name" "$value" environment
    done
    # RCCL and NCCL read the home that passwd names, whatever HOME is.
    home=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6) || home=''
    home=${home:-${HOME:-}}
    for file in "$home/.nccl.conf" "$home/.rccl.conf" /etc/nccl.conf /etc/rccl.conf \
        ${NCCL_CONF_FILE:+"$NCCL_CONF_FILE"}; do
        [ ! -r "$root$file" ] || check_hidden "$root$file"
    done
    if [ $loaded = other ]; then
        return
    elif [ $loaded = no ] && [ $sourced = 1 ]; then
        fail "NCCL_TUNER_PLUGIN does not arrive here ($passes)"
        return
    elif [ $loaded = no ]; then
        warn "NCCL_TUNER_PLUGIN is not set here: a job sources env.sh first"
        return
    fi
    for name in $needed; do
        eval "value=\${$name-}"
        wanted "$name"
        [ -n "$value" ] || fail "the rules need $name=$want, and it is not set"
    done
}
# NAME=VALUE lines take effect where the environment does not have the name.
check_hidden() {
    from=$1
    while read -r line || [ -n "$line" ]; do
        case $line in '#'*) continue ;; *=*) ;; *) continue ;; esac
        name=${line%%=*} value=${line#*=}
        name=${name%"${name##*[! ]}"} value=${value#"${value%%[! ]*}"}
        case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        eval "set_already=\${$name+yes}"
        [ -n "$set_already" ] || [ -z "$value" ] || judge "$name" "$value" "$from"
    done <"$1"
}
"""
