#%Module1.0
{{ header('#') }}
module-whatis {{ whatis | tcl }}
proc ModulesHelp {} { puts stderr {{ help | tcl }} }
conflict rccltune
set version {{ version }}
set plugin {{ plugin }}
set here {{ folder | tcl }}
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
        puts stderr "rccltune: $name is set to '$old' and stays so;\
            the rules in $here were made for '$value'"
        return 0
    }
    setenv $name $value
    setenv __RCCLTUNE_MODULE_$name $value
    lappend names $name
    return 1
}
if {[module-info mode remove]} {
    # Here setenv unsets.
    foreach name [split [rccltune_get __RCCLTUNE_MODULE] :] {
        set value [rccltune_get __RCCLTUNE_MODULE_$name]
        setenv __RCCLTUNE_MODULE_$name $value
        if {[rccltune_get $name] eq $value} { setenv $name $value }
    }
    setenv __RCCLTUNE_MODULE {}
} else {
{% if said %}
if {[module-info mode load]} { puts stderr {{ said | tcl }} }
{% endif %}
if {[rccltune_set NCCL_TUNER_PLUGIN "$here/$plugin"]} {
    set other [rccltune_get {{ other_variable }}]
    if {[string first $ours $other] == 0} { unsetenv {{ other_variable }}; set other {} }
    if {$other ne {}} {
        puts stderr "rccltune: {{ other_variable }} is set and stays so: the rules are those"
    } elseif {[rccltune_set {{ rules_variable }} "{{ rules_path('$here') }}"]} {
{% for name, value in environment %}
        rccltune_set {{ name }} {{ value | tcl }}
{% endfor %}
    }
}
if {$names ne {}} { setenv __RCCLTUNE_MODULE [join $names :] }
}
