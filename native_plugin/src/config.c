#include "config.h"

#include "nosignal.h"
#include "reasons.h"
#include "requirements.h"
#include "this_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SHOWN_FINDINGS = 8 };

static enum config_outcome end_without_memory(struct load *load)
{
    return load_end(load, CONFIG_UNSURE, REASON_MEMORY "out of memory");
}

/* The placement whose own file comes before the one for any; NULL where there is none to look for.
 * ROCR_VISIBLE_DEVICES says nothing here: every rank may have another list. */
static const char *placement_to_look_for(struct load *load)
{
    const char *declared = load->settings->placement;
    if (declared != NULL) {
        return strcmp(declared, "node") == 0 ? NULL : declared;
    }
    return load_placement_holds(load, "one-oam") ? "one-oam" : NULL;
}

/* Writes the path of the directory's file for this arch and mode, and for `placement` unless that
 * is NULL. */
static enum config_outcome name_in_directory(struct load *load, const char *placement)
{
    struct config *config = load->config;
    char mode[MODE_TEXT_SIZE];
    int length =
        snprintf(config->path, sizeof config->path, "%s/rccl_tuner_%s_%s%s%s.csv",
                 load->settings->rule_dir, config->machine.arch, mode_text(config->mode, mode),
                 placement != NULL ? "_" : "", placement != NULL ? placement : "");
    load->placement = placement;
    if (length < 0 || (size_t)length >= sizeof config->path) {
        return load_end(load, CONFIG_WRONG,
                        REASON_VARIABLE "RCCLTUNE_CONFIG_DIR: the path is too long");
    }
    return CONFIG_RULES;
}

/* Chooses the file for this arch, mode and placement in RCCLTUNE_CONFIG_DIR. */
static enum config_outcome choose_from_directory(struct load *load)
{
    struct config *config = load->config;
    const char *directory = load->settings->rule_dir;
    char mode[MODE_TEXT_SIZE];
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return load_end(load, CONFIG_WRONG,
                        REASON_DIRECTORY "RCCLTUNE_CONFIG_DIR: %s cannot be opened", directory);
    }
    (void)close(fd);
    load_detect_machine(load);
    const struct machine *machine = &config->machine;
    const char *doubt = load_mode_doubt(load);
    if (doubt != NULL || !(mode_is_known(config->mode) || machine->status == MACHINE_NO_AMD_GPU)) {
        return load_end(load, CONFIG_UNSURE,
                        REASON_NO_MODE "the partition mode is not known (%s); %s",
                        doubt != NULL ? doubt : mode_text(config->mode, mode), load_mode_cure);
    }
    if (machine->arch[0] == '\0' && machine->status == MACHINE_NO_AMD_GPU) {
        return load_end(load, CONFIG_NOTHING,
                        REASON_NO_AMD_GPU "no AMD GPU here, so no file in %s is for it", directory);
    }
    if (machine->arch[0] == '\0') {
        return load_end(
            load, CONFIG_UNSURE,
            REASON_NO_ARCH
            "the GPU's arch is not known (%s); name the file with NCCL_TUNER_CONFIG_FILE on all "
            "ranks",
            machine->reason[0] != '\0' ? machine->reason : "KFD cannot be read");
    }
    return name_in_directory(load, placement_to_look_for(load));
}

static enum config_outcome choose_file(struct load *load)
{
    const struct settings *settings = load->settings;
    if (settings->rule_file != NULL) {
        return text_copy(text_of(settings->rule_file), load->config->path, CONFIG_PATH_SIZE)
                   ? CONFIG_RULES
                   : load_end(load, CONFIG_WRONG,
                              REASON_VARIABLE "NCCL_TUNER_CONFIG_FILE: the path is too long");
    }
    if (settings->rule_dir != NULL) {
        return choose_from_directory(load);
    }
    return load_end(load, CONFIG_NOTHING,
                    REASON_UNSET "neither NCCL_TUNER_CONFIG_FILE nor RCCLTUNE_CONFIG_DIR is set");
}

/* Reads all of an open file.  `*content` is to be freed by the caller in every case. */
static enum config_outcome read_all(struct load *load, const char *path, int fd, char **content,
                                    size_t *length)
{
    size_t room = 0;
    for (*length = 0;;) {
        if (*length == room) {
            room = room == 0 ? 1 << 16 : room * 2;
            char *bigger = room > 2 * (size_t)RULE_FILE_MAX_BYTES ? NULL : realloc(*content, room);
            if (bigger == NULL) {
                return end_without_memory(load);
            }
            *content = bigger;
        }
        ssize_t got = read(fd, *content + *length, room - *length);
        if (got == 0) {
            return CONFIG_RULES;
        }
        if (got < 0 && errno != EINTR) {
            return load_end(load, CONFIG_WRONG, REASON_FILE "%s: cannot be read (errno %d)", path,
                            errno);
        }
        *length += got > 0 ? (size_t)got : 0;
        if (*length > RULE_FILE_MAX_BYTES) {
            return load_end(load, CONFIG_WRONG, REASON_FILE "%s: larger than the limit of %d MiB",
                            path, RULE_FILE_MAX_BYTES >> 20);
        }
    }
}

/* Reads a file whose name leads to a regular one, over links too (Kubernetes mounts are links). */
static enum config_outcome read_regular(struct load *load, const char *path, int fd, char **content,
                                        size_t *length)
{
    if (!is_regular_file(fd)) {
        /* A pipe may be read by one rank alone, and a device has no end. */
        return load_end(load, CONFIG_WRONG,
                        REASON_FILE
                        "%s: no regular file (a folder, a device or a pipe, as <(...) makes one)",
                        path);
    }
    return read_all(load, path, fd, content, length);
}

/* Reads a file; one that nobody named, but the directory would have, need not be there. */
static enum config_outcome read_file(struct load *load, const char *path, bool is_named,
                                     char **content, size_t *length)
{
    /* O_NONBLOCK: a pipe without a writer must not hang the job. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && !is_named) {
        return load_end(load, CONFIG_NOTHING, REASON_NO_FILE "%s: no file for this arch and mode",
                        path);
    }
    if (fd < 0) {
        return load_end(load, CONFIG_WRONG, REASON_FILE "%s: cannot be opened (errno %d%s)", path,
                        errno, errno == ENOENT ? ", no such file" : "");
    }
    enum config_outcome outcome = read_regular(load, path, fd, content, length);
    (void)close(fd);
    return outcome;
}

/* The refusal of a file: its first mistakes, one a line. */
static enum config_outcome refuse(struct load *load, const struct rule_file *file)
{
    struct config *config = load->config;
    size_t shown = 0;
    int used = snprintf(config->reason, sizeof config->reason,
                        REASON_REFUSED "%.300s: refused, %zu errors, %zu warnings%s", config->path,
                        file->n_errors, file->n_warnings,
                        file->n_errors == 0 ? " (RCCLTUNE_STRICT=1)" : "");
    for (size_t i = 0; i < file->n_findings && shown < MAX_SHOWN_FINDINGS; i++) {
        const struct finding *finding = &file->findings[i];
        if (used < 0 || (size_t)used >= sizeof config->reason) {
            break;
        }
        if (finding->severity == FINDING_ERROR || file->n_errors == 0) {
            used += snprintf(config->reason + used, sizeof config->reason - (size_t)used,
                             "\n  line %u: %s [%s]", (unsigned)finding->line, finding->message,
                             finding->code);
            shown++;
        }
    }
    return CONFIG_WRONG;
}

static enum config_outcome build(struct load *load, const struct rule_file *file)
{
    struct config *config = load->config;
    struct scale scale = {load->n_nodes, load->n_ranks, config->mode};
    switch (rule_table_build(file->rules, file->n_rules, &scale, &config->table)) {
    case RULE_TABLE_OK:
        break;
    case RULE_TABLE_NO_MEMORY:
        return end_without_memory(load);
    case RULE_TABLE_TOO_MANY_KINDS:
        return load_end(
            load, CONFIG_WRONG,
            REASON_TOO_MANY
            "%s: more than %d different (algorithm, protocol, numPipeOps, regBuff) for one "
            "collective",
            config->path, TABLE_MAX_KINDS);
    case RULE_TABLE_TOO_MANY_CANDIDATES:
        return load_end(load, CONFIG_WRONG,
                        REASON_TOO_MANY "%s: the rules overlap too much (limit: %d list entries)",
                        config->path, TABLE_MAX_CANDIDATES);
    }
    if (config->table->n_candidates == 0) {
        rule_table_free(config->table);
        config->table = NULL;
        return load_end(load, CONFIG_NOTHING,
                        REASON_SCALE "%s: no rule for %llu ranks on %llu nodes", config->path,
                        (unsigned long long)load->n_ranks, (unsigned long long)load->n_nodes);
    }
    return CONFIG_RULES;
}

static enum config_outcome use_content(struct load *load, struct text content)
{
    struct rule_file file;
    enum config_outcome outcome;
    if (load->settings->log != LOG_OFF) {
        sha256_text(content,
                    load->config->sha256); /* a third of the whole init, so only if shown */
    }
    if (!rule_file_parse(content, &file)) {
        outcome = end_without_memory(load);
    } else if (!rule_file_is_usable(&file, load->settings->strict)) {
        outcome = refuse(load, &file);
    } else {
        load->config->n_rules = file.n_rules;
        load->config->n_warnings = file.n_warnings;
        outcome = requirements_check(load, &file);
        outcome = outcome == CONFIG_RULES ? build(load, &file) : outcome;
    }
    rule_file_free(&file);
    return outcome;
}

/* Reads the rule file that was chosen and makes a table of it. */
static enum config_outcome load_file(struct load *load)
{
    char *content = NULL;
    size_t length = 0;
    bool is_named = load->settings->rule_file != NULL;
    enum config_outcome outcome = read_file(load, load->config->path, is_named, &content, &length);
    if (outcome == CONFIG_RULES) {
        outcome = use_content(load, (struct text){content, length});
    }
    free(content);
    return outcome;
}

/* Goes on with the directory's file for any placement, as if the other had not been there. */
static enum config_outcome load_file_for_any(struct load *load)
{
    struct config *config = load->config;
    config->n_rules = 0;
    config->n_warnings = 0;
    config->sha256[0] = '\0';
    config->reason[0] = '\0';
    config->unmet_need[0] = '\0';
    config->wanted_library = (struct library){.family = LIBRARY_UNKNOWN};
    config->product_unchecked = false;
    enum config_outcome outcome = name_in_directory(load, NULL);
    return outcome == CONFIG_RULES ? load_file(load) : outcome;
}

static enum config_outcome load_rules(struct load *load)
{
    enum config_outcome outcome = choose_file(load);
    if (outcome == CONFIG_RULES) {
        outcome = load_file(load);
    }
    if (outcome == CONFIG_NOTHING && load->placement != NULL) {
        outcome = load_file_for_any(load);
    }
    return outcome;
}

enum config_outcome config_load(const struct settings *settings, uint64_t n_nodes, uint64_t n_ranks,
                                const void *host, struct config *config)
{
    struct load load = {settings, config, n_nodes, n_ranks, host, NULL};
    *config = (struct config){.table = NULL, .mode = settings->mode};
    return load_rules(&load);
}

bool config_is_of_another_library(const struct config *config)
{
    return config->wanted_library.family != LIBRARY_UNKNOWN &&
           config->library.family != LIBRARY_UNKNOWN &&
           !library_equal(&config->wanted_library, &config->library);
}

void config_release(struct config *config)
{
    rule_table_free(config->table);
    config->table = NULL;
}
