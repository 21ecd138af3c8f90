#include "requirements.h"

#include "reasons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One value of `#@ requires`: unknown values pass, different ones do not. */
static bool differs(uint32_t wanted, uint32_t found)
{
    return wanted != 0 && found != 0 && wanted != found;
}

static const char *or_unknown(const char *value)
{
    return value[0] != '\0' ? value : "?";
}

/* Whether the GPU at hand certainly is AMD's: RCCL serves no other; else one in a partition mode,
 * which NVIDIA's have not, or one of the node where none of NVIDIA's is. */
static bool is_amd(const struct config *config)
{
    if (config->library.family != LIBRARY_UNKNOWN) {
        return config->library.family == LIBRARY_RCCL;
    }
    return (config->mode.compute != COMPUTE_UNKNOWN && config->mode.compute != COMPUTE_NONE) ||
           (config->machine.arch[0] != '\0' && !config->machine.has_nvidia);
}

/* Whether the GPU at hand certainly is not of that product of NVIDIA's. */
static bool is_other_product(const struct config *config, const char *wanted)
{
    const char *product = config->machine.product;
    return is_amd(config) || (product[0] != '\0' && strcmp(product, wanted) != 0);
}

static enum config_outcome check_machine(struct load *load, const struct requirement *wanted)
{
    struct config *config = load->config;
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
        return load_end(
            load, CONFIG_UNSURE,
            REASON_NO_MODE "%s requires a partition mode, and this GPU's is not known (%s); %s",
            config->path, doubt != NULL ? doubt : mode_text(config->mode, mode), load_mode_cure);
    }
    if (arch_missing) {
        return load_end(load, CONFIG_UNSURE,
                        REASON_NO_ARCH "%s requires %s, and this GPU's arch is not known (%s); %s",
                        config->path, wanted->arch, machine->reason, load_mode_cure);
    }
    bool other_mode = differs(wanted->mode.compute, config->mode.compute) ||
                      (wanted->mode.memory != 0 && wanted->mode.memory != config->mode.memory);
    bool no_gpu = machine->status == MACHINE_NO_AMD_GPU && !load->settings->mode_is_set;
    bool other_arch = wanted->arch[0] != '\0' && (machine->arch[0] != '\0' || no_gpu) &&
                      strcmp(wanted->arch, machine->arch) != 0;
    bool other_device = differs(wanted->device, machine->device) || (no_gpu && wanted->device != 0);
    bool other_product = wanted->product[0] != '\0' && is_other_product(config, wanted->product);
    bool other_machine =
        other_arch || other_device || other_product || differs(wanted->n_cus, machine->n_cus);
    if (other_machine || (asks_mode && other_mode)) {
        return load_end(
            load, CONFIG_WRONG,
            "%s%s line %u requires another machine (arch=%s device=0x%x cus=%u mode=%s product=%s; "
            "0 and ?: any); "
            "this one is arch=%s device=0x%x cus=%u mode=%s product=%s",
            other_machine ? REASON_MACHINE : REASON_MODE, config->path, (unsigned)wanted->line,
            or_unknown(wanted->arch), (unsigned)wanted->device, (unsigned)wanted->n_cus,
            mode_text(wanted->mode, wanted_mode), or_unknown(wanted->product),
            or_unknown(machine->arch), (unsigned)machine->device, (unsigned)machine->n_cus,
            mode_text(config->mode, mode), or_unknown(machine->product));
    }
    config->product_unchecked = wanted->product[0] != '\0' && machine->product[0] == '\0';
    return CONFIG_RULES;
}

static enum config_outcome check_requirement(struct load *load, const struct requirement *wanted)
{
    bool asks_machine = wanted->arch[0] != '\0' || wanted->product[0] != '\0' ||
                        wanted->device != 0 || wanted->n_cus != 0 ||
                        wanted->mode.compute != COMPUTE_UNKNOWN || wanted->mode.memory != 0;
    if (asks_machine) {
        load_detect_machine(load);
        enum config_outcome outcome = check_machine(load, wanted);
        if (outcome != CONFIG_RULES) {
            return outcome;
        }
    }
    if (!load_placement_holds(load, wanted->placement)) {
        return load_end(
            load, CONFIG_NOTHING,
            REASON_PLACEMENT
            "%s requires placement=%s; set RCCLTUNE_PLACEMENT=%s on all ranks to use it",
            load->config->path, wanted->placement, wanted->placement);
    }
    return CONFIG_RULES;
}

/* Rules of another release may be good or bad here: nobody measured them. */
static enum config_outcome check_library(struct load *load, const struct rule_file *file)
{
    struct config *config = load->config;
    char wanted[LIBRARY_TEXT_SIZE];
    char found[LIBRARY_TEXT_SIZE];
    config->wanted_library = file->library;
    config->keeps_bits = file->bits[0] != '\0';
    if (file->library.family == LIBRARY_UNKNOWN) {
        return CONFIG_RULES;
    }
    if (load->settings->strict && config_is_of_another_library(config)) {
        return load_end(load, CONFIG_WRONG,
                        REASON_LIBRARY
                        "%s has rules for %s, and this job runs %s (RCCLTUNE_STRICT=1)",
                        config->path, library_text(&file->library, wanted),
                        library_text(&config->library, found));
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
    load_detect_machine(load);
    const char *doubt = load_mode_doubt(load);
    if (doubt != NULL || load->config->mode.compute == COMPUTE_UNKNOWN) {
        return load_end(load, CONFIG_UNSURE,
                        REASON_NO_MODE
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
    if (file->library.family != LIBRARY_UNKNOWN || file->requirement.product[0] != '\0') {
        library_at(load->host, &load->config->library);
    }
    enum config_outcome outcome = check_requirement(load, &file->requirement);
    outcome = outcome == CONFIG_RULES ? check_library(load, file) : outcome;
    return outcome == CONFIG_RULES ? check_row_modes(load, file) : outcome;
}
