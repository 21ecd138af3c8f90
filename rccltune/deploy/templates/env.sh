{{ header('#') }}
# Source it before the job starts: . {{ (directory ~ '/env.sh') | sh }}
# A variable that is set to something else stays as it is, with a warning.
_rccltune_version={{ version }}
_rccltune_written={{ directory | sh }}
_rccltune_plugin={{ plugin }}
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
for _rccltune_try in \
    ${RCCLTUNE_DEPLOY_DIR:+"$RCCLTUNE_DEPLOY_DIR/versions/$_rccltune_version"} \
    ${RCCLTUNE_DEPLOY_DIR:+"$RCCLTUNE_DEPLOY_DIR"} \
    "$_rccltune_at/versions/$_rccltune_version" \
    "${_rccltune_at%/*}/$_rccltune_version" \
    "${_rccltune_at%/*}/versions/$_rccltune_version" \
    "$_rccltune_at" \
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
_rccltune_say() {
    printf 'rccltune: %s\n' "$*" >&2
}
# Set NAME to VALUE, unless the user has set it to something else.
_rccltune_set() {
    eval "_rccltune_old=\${$1-}"
    case $_rccltune_old in
    '' | "$2" | "$_rccltune_ours"/*)
        eval "$1=\$2"
        export "${1?}"
        ;;
    *)
        _rccltune_say "$1 is set to '$_rccltune_old' and stays so;" \
            "the rules in $_rccltune_here were made for '$2'"
        return 1
        ;;
    esac
}
# What an earlier version in the same folder had set, and this one does not.
_rccltune_forget() {
    eval "_rccltune_old=\${$1-}"
    case $_rccltune_old in
    "$_rccltune_ours"/*) unset "$1" ;;
    esac
}
if [ -z "$_rccltune_here" ]; then
    _rccltune_say "version $_rccltune_version is neither in $_rccltune_written" \
        "nor beside env.sh; nothing is set (RCCLTUNE_DEPLOY_DIR names its folder)"
    unset -f _rccltune_say _rccltune_set _rccltune_forget
    return 1
fi
{% if simulated %}
_rccltune_say {{ remark | sh }}
{% endif %}
if _rccltune_set NCCL_TUNER_PLUGIN "$_rccltune_here/$_rccltune_plugin"; then
    _rccltune_forget {{ other_variable }}
    if [ -n "{{ '${' ~ other_variable ~ ':-}' }}" ]; then
        _rccltune_say "{{ other_variable }} is set to '${{ other_variable }}' and stays so: the job's rules" \
            "are those, and nothing is set for ours"
    elif _rccltune_set {{ rules_variable }} "{{ rules_path('$_rccltune_here') }}"; then
{% for name, value in environment %}
        _rccltune_set {{ name }} {{ value | sh }} || :
{% endfor %}
{% if placements %}
        if [ -z "${RCCLTUNE_PLACEMENT:-}" ]; then
            _rccltune_say "these rules are for jobs whose ranks lie as {{ placements | join(' or ') }};" \
                "export RCCLTUNE_PLACEMENT={{ placements[0] }} where they do"
        fi
{% endif %}
        :
    fi
else
    _rccltune_say "so nothing else of it is set either"
fi
unset -f _rccltune_say _rccltune_set _rccltune_forget
unset _rccltune_version _rccltune_written _rccltune_plugin _rccltune_at _rccltune_here
unset _rccltune_try _rccltune_old _rccltune_ours
