/*
 * Whether a rule file is for this machine, this library and this communicator: its `#@ requires`,
 * its `#@ library`, and the modes of its rows.
 */
#ifndef RCCLTUNE_REQUIREMENTS_H
#define RCCLTUNE_REQUIREMENTS_H

#include "rule_file.h"
#include "this_machine.h"

/* CONFIG_RULES where nothing speaks against it, else another outcome with its reason.  Notes the
 * first `#@ needs` that the environment lacks, whatever the outcome, and what could not be checked.
 */
enum config_outcome requirements_check(struct load *load, const struct rule_file *file);

#endif
