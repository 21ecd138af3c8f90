"""Module files for Environment Modules (Tcl) and Lmod (Lua): env.sh's policy in their words."""

from __future__ import annotations

from typing import Final

from rccltune.deploy.records import Delivery, header, lua, remark, tcl

# What loading has set is for unloading to know, and nobody else: by then another version may be
# current, the user may have changed a variable, and what was set before must be there afterwards.
# Variables say it in every module system; pushenv is not in all of them.
_MARK: Final = "__RCCLTUNE_MODULE"
_TCL: Final = """
set base [file dirname [file dirname $ModulesCurrentModulefile]]
foreach try [list $base $base/versions/$version] {
    if {[file readable $try/$plugin] && [file readable $try/MANIFEST]} { set here $try }
}
set ours $here/
if {[file tail [file dirname $here]] eq {versions}} { set ours [file dirname $here]/ }
set names {}
proc rccltune_get {name} {
    global env
    if {[info exists env($name)]} { return $env($name) }
    return {}
}
proc rccltune_set {name value} {
    global here ours names
    set old [rccltune_get $name]
    if {$old eq $value} { return 1 }
    if {$old ne {} && [string first $ours $old] != 0} {
        puts stderr "rccltune: $name is set to '$old' and stays so;\\
            the rules in $here were made for '$value'"
        return 0
    }
    setenv $name $value
    setenv @MARK@_$name $value
    lappend names $name
    return 1
}
if {[module-info mode remove]} {
    # Here setenv unsets.
    foreach name [split [rccltune_get @MARK@] :] {
        set value [rccltune_get @MARK@_$name]
        setenv @MARK@_$name $value
        if {[rccltune_get $name] eq $value} { setenv $name $value }
    }
    setenv @MARK@ {}
} else {
""".replace("@MARK@", _MARK)
_LUA: Final = """
local base = myFileName():match("^(.*)/modulefiles/[^/]*$") or ""
for _, try in ipairs({base, base .. "/versions/" .. version}) do
    if isFile(try .. "/" .. plugin) and isFile(try .. "/MANIFEST") then here = try end
end
local ours = here:match("^(.*/versions/)[^/]*$") or here .. "/"
local names = {}
local function get(name) return os.getenv(name) or "" end
local function set(name, value)
    local old = get(name)
    if old == value then return true end
    if old ~= "" and old:sub(1, #ours) ~= ours then
        LmodMessage("rccltune: " .. name .. " is set to '" .. old .. "' and stays so; the rules in "
            .. here .. " were made for '" .. value .. "'")
        return false
    end
    setenv(name, value)
    setenv("@MARK@_" .. name, value)
    names[#names + 1] = name
    return true
end
if mode() == "unload" then
    -- Here setenv unsets.
    for name in get("@MARK@"):gmatch("[^:]+") do
        local value = get("@MARK@_" .. name)
        setenv("@MARK@_" .. name, value)
        if get(name) == value then setenv(name, value) end
    end
    setenv("@MARK@", "")
else
""".replace("@MARK@", _MARK)


def tcl_module(delivery: Delivery, version: str) -> str:
    """``modulefiles/rccltune``."""
    rules = "$here" if delivery.by_folder else f"$here/{delivery.rules[0].name}"
    other = _other(delivery)
    lines = [
        "#%Module1.0",
        *header(delivery, version),
        f"module-whatis {tcl(_whatis(delivery, version))}",
        f"proc ModulesHelp {{}} {{ puts stderr {tcl(_help(delivery, version))} }}",
        "conflict rccltune",
        f"set version {version}",
        f"set plugin {delivery.library.name}",
        f"set here {tcl(f'{delivery.directory}/versions/{version}')}",
    ]
    ends = [
        *([f"if {{[module-info mode load]}} {{ puts stderr {tcl(_said(delivery))} }}"])
        * bool(_said(delivery)),
        'if {[rccltune_set NCCL_TUNER_PLUGIN "$here/$plugin"]} {',
        f"    set other [rccltune_get {other}]",
        f"    if {{[string first $ours $other] == 0}} {{ unsetenv {other}; set other {{}} }}",
        "    if {$other ne {}} {",
        f'        puts stderr "rccltune: {other} is set and stays so: the rules are those"',
        f'    }} elseif {{[rccltune_set {delivery.rules_variable} "{rules}"]}} {{',
        *(f"        rccltune_set {name} {tcl(value)}" for name, value in delivery.environment),
        "    }",
        "}",
        f"if {{$names ne {{}}}} {{ setenv {_MARK} [join $names :] }}",
        "}",
    ]
    return "\n".join(lines) + _TCL + "\n".join(ends) + "\n"


def lua_module(delivery: Delivery, version: str) -> str:
    """``modulefiles/rccltune.lua``, which Lmod takes before the other."""
    rules = "here" if delivery.by_folder else f"here .. {lua('/' + delivery.rules[0].name)}"
    other = _other(delivery)
    lines = [
        *header(delivery, version, "--"),
        f"whatis({lua(_whatis(delivery, version))})",
        f"help({lua(_help(delivery, version))})",
        'conflict("rccltune")',
        f"local version, plugin = {lua(version)}, {lua(delivery.library.name)}",
        f"local here = {lua(f'{delivery.directory}/versions/{version}')}",
    ]
    ends = [
        *([f'if mode() == "load" then LmodMessage({lua(_said(delivery))}) end'])
        * bool(_said(delivery)),
        'if set("NCCL_TUNER_PLUGIN", here .. "/" .. plugin) then',
        f"    local other = get({lua(other)})",
        f"    if other:sub(1, #ours) == ours then unsetenv({lua(other)}); other = '' end",
        "    if other ~= '' then",
        f'        LmodMessage("rccltune: {other} is set and stays so: the rules are those")',
        f"    elseif set({lua(delivery.rules_variable)}, {rules}) then",
        *(f"        set({lua(name)}, {lua(value)})" for name, value in delivery.environment),
        "    end",
        "end",
        f'if #names > 0 then setenv("{_MARK}", table.concat(names, ":")) end',
        "end",
    ]
    return "\n".join(lines) + _LUA + "\n".join(ends) + "\n"


def _other(delivery: Delivery) -> str:
    return "NCCL_TUNER_CONFIG_FILE" if delivery.by_folder else "RCCLTUNE_CONFIG_DIR"


def _whatis(delivery: Delivery, version: str) -> str:
    noted = f" ({remark(delivery)})" if remark(delivery) else ""
    return f"Tuned settings for RCCL and NCCL collectives, version {version}{noted}"


def _help(delivery: Delivery, version: str) -> str:
    """What ``module help`` says."""
    names = [name for name, _ in delivery.variables("")]
    return (
        f"{_whatis(delivery, version)}.\nSets {', '.join(names)}; a value of the user's own stays. "
        f"What they are: {delivery.directory}/versions/{version}/MANIFEST"
    )


def _said(delivery: Delivery) -> str:
    """What loading says: nothing where rules hold for every job and are real."""
    said = [f"rccltune: {remark(delivery)}"] if delivery.simulated else []
    if delivery.placements:
        name = delivery.placements[0]
        said.append(f"rccltune: set RCCLTUNE_PLACEMENT={name} where a job's ranks lie so")
    return "; ".join(said)
