#include "requirements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One value of `#@ requires`: unknown values pass, different ones do not. */
static bool differs(uint32_t wanted, uint32_t found)
{
    return wanted != 0 && found != 0 && wanted != found;
}

static enum config_outcome check_machine(struct load *load, const struct requirement *wanted)
{
    const struct config *config = load->config;
    const struct machine *machine = &config->machine;
    bool asks_mode = wanted->mode.compute != COMPUTE_UNKNOWN || wanted->mode.memory != 0;
    bool mode_missing =
        (wanted->mode.compute != COMPUTE_UNKNOWN && config->mode.compute == COMPUTE_UNKNOWN) ||
        (wanted->mode.memory != 0 && config->mode.memory == 0 &&
         config->mode.compute != COMPUTE_NONE);
    bool arch_missing = wanted->arch[0] != '\0' && machine->arch[0] == '\0' &&
                        machine->status != MACHINE_NO_AMD_GPU && !load->settings->mode_is_set;
    const char *doubt = load_mode_doubt(load);
    char mode[MODE_TEXT_SIZE], wanted_mode[MODE_TEXT_SIZE];
    if (asks_mode && (doubt != NULL || mode_missing)) {
        return load_end(load, CONFIG_UNSURE,
                        "%s requires a partition mode, and this GPU's is not known (%s); %s",
                        config->path, doubt != NULL ? doubt : mode_text(config->mode, mode),
                        load_mode_cure);
    }
    if (arch_missing) {
        return load_end(load, CONFIG_UNSURE,
                        "%s requires %s, and this GPU's arch is not known (%s); %s", config->path,
                        wanted->arch, machine->reason, load_mode_cure);
    }
    bool other_mode = differs(wanted->mode.compute, config->mode.compute) ||
                      (wanted->mode.memory != 0 && wanted->mode.memory != config->mode.memory);
    bool no_gpu = machine->status == MACHINE_NO_AMD_GPU && !load->settings->mode_is_set;
    bool other_arch = wanted->arch[0] != '\0' && (machine->arch[0] != '\0' || no_gpu) &&
                      strcmp(wanted->arch, machine->arch) != 0;
    bool other_device = differs(wanted->device, machine->device) || (no_gpu && wanted->device != 0);
    if ((asks_mode && other_mode) || other_arch || other_device ||
        differs(wanted->n_cus, machine->n_cus)) {
        return load_end(load, CONFIG_WRONG,
                        "%s line %u requires another machine (arch=%s device=0x%x cus=%u mode=%s; "
                        "0 and ?: any); "
                        "this one is arch=%s device=0x%x cus=%u mode=%s",
                        config->path, (unsigned)wanted->line,
                        wanted->arch[0] != '\0' ? wanted->arch : "?", (unsigned)wanted->device,
                        (unsigned)wanted->n_cus, mode_text(wanted->mode, wanted_mode),
                        machine->arch[0] != '\0' ? machine->arch : "?", (unsigned)machine->device,
                        (unsigned)machine->n_cus, mode_text(config->mode, mode));
    }
    return CONFIG_RULES;
}

static enum config_outcome check_requirement(struct load *load, const struct requirement *wanted)
{
    bool asks_machine = wanted->arch[0] != '\0' || wanted->device != 0 || wanted->n_cus != 0 ||
                        wanted->mode.compute != COMPUTE_UNKNOWN || wanted->mode.memory != 0;
    if (asks_machine) {
        load_detect(load);
        enum config_outcome outcome = check_machine(load, wanted);
        if (outcome != CONFIG_RULES) {
            return outcome;
        }
    }
    if (!load_placement_holds(load, wanted->placement)) {
        return load_end(
            load, CONFIG_NOTHING,
            "%s requires placement=%s; set RCCLTUNE_PLACEMENT=%s on all ranks to use it",
            load->config->path, wanted->placement, wanted->placement);
    }
    return CONFIG_RULES;
}

/* Rows with a partition mode of their own need to know ours, but only if they could hold here. */
static enum config_outcome check_row_modes(struct load *load, const struct rule_file *file)
{
    bool asked = false;
    for (size_t i = 0; i < file->n_rules && !asked; i++) {
        asked = file->rules[i].only_mode.compute != COMPUTE_UNKNOWN &&
                rule_is_for_scale(&file->rules[i], load->n_nodes, load->n_ranks);
    }
    if (!asked) {
        return CONFIG_RULES;
    }
    load_detect(load);
    const char *doubt = load_mode_doubt(load);
    if (doubt != NULL || load->config->mode.compute == COMPUTE_UNKNOWN) {
        return load_end(load, CONFIG_UNSURE,
                        "%s has rows for one partition mode, and this GPU's is not known (%s); %s",
                        load->config->path, doubt != NULL ? doubt : "no value", load_mode_cure);
    }
    return CONFIG_RULES;
}

/* Notes the first `#@ needs` that the environment lacks: the rules then meet cells that are not
 * selectable, which is harmless and puzzling. */
static void note_unmet_need(struct config *config, const struct rule_file *file)
{
    char name[64];
    for (size_t i = 0; i < file->n_needs && config->unmet_need[0] == '\0'; i++) {
        struct text value = file->needs[i].value;
        if (text_copy(file->needs[i].name, name, sizeof name) && !text_is(value, "") &&
            !text_is(value, getenv(name) == NULL ? "" : getenv(name))) {
            (void)snprintf(config->unmet_need, sizeof config->unmet_need, "%s=%.*s", name,
                           value.left > 40 ? 40 : (int)value.left, value.at);
        }
    }
}

enum config_outcome requirements_check(struct load *load, const struct rule_file *file)
{
    note_unmet_need(load->config, file);
    enum config_outcome outcome = check_requirement(load, &file->requirement);
    return outcome == CONFIG_RULES ? check_row_modes(load, file) : outcome;
}
