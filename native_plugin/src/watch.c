#include "watch.h"

#include "lock.h"
#include "names.h"
#include "reasons.h"
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMM_ID_SIZE = 32 };

struct watch {
    lock_holder busy;
    pid_t pid;          /* that made it */
    struct watch *next; /* of the list of those that log */
    enum log_level log;
    bool log_failed;
    bool log_is_short; /* memory ran out; said once */
    char id[COMM_ID_SIZE];
    struct output_comm comm;         /* comm.id is `id` */
    char log_path[OUTPUT_PATH_SIZE]; /* "": stderr */
    const struct rule_table *table;  /* outlives the watcher */
    uint64_t *hits;                  /* per candidate of the table */
    uint64_t n_calls;
    uint64_t n_hits;
    uint64_t n_misses;
    uint64_t n_unselectable; /* a rule matched, none was selectable */
    uint64_t n_fallbacks;    /* hits after a rule that was not selectable */
    struct tally tally;      /* of decisions: which are new */
};

static lock_holder listing;
static struct watch *first;

static void enlist(struct watch *watch)
{
    lock(&listing);
    watch->next = first;
    first = watch;
    unlock(&listing);
}

static void strike(const struct watch *watch)
{
    lock(&listing);
    struct watch **at = &first;
    while (*at != watch) {
        at = &(*at)->next;
    }
    *at = watch->next;
    unlock(&listing);
}

/* Logs to the file, or to stderr where that cannot be written: a log must not stop a job. */
static void flush_log(struct watch *watch, struct lines *lines)
{
    struct text content = {lines->at, lines->used};
    if (lines->failed && !watch->log_is_short) {
        output_say("rccltune: error: comm=%s: " REASON_MEMORY "lines of the log are missing\n",
                   watch->id);
        watch->log_is_short = true;
    }
    if (watch->log_path[0] != '\0' && !watch->log_failed) {
        const char *trouble = output_append(watch->log_path, "", content);
        if (trouble == NULL) {
            lines_free(lines);
            return;
        }
        output_say("rccltune: error: comm=%s: " REASON_LOG
                   "it goes on here, %s could not be written: %s\n",
                   watch->id, watch->log_path, trouble);
        watch->log_failed = true;
    }
    output_tell(content);
    lines_free(lines);
}

/* How the file's conditions on product and library stand. */
static void add_library(struct lines *lines, const struct config *config)
{
    char wanted[LIBRARY_TEXT_SIZE];
    char found[LIBRARY_TEXT_SIZE];
    bool asks = config->wanted_library.family != LIBRARY_UNKNOWN;
    bool library_unchecked = asks && config->library.family == LIBRARY_UNKNOWN;
    if (config_is_of_another_library(config)) {
        lines_add(lines, " library=%s rules-for=%s", library_text(&config->library, found),
                  library_text(&config->wanted_library, wanted));
    }
    if (config->product_unchecked || library_unchecked) {
        lines_add(lines, " unchecked=%s%s%s (not known here)",
                  config->product_unchecked ? "product" : "",
                  config->product_unchecked && library_unchecked ? "," : "",
                  library_unchecked ? "library" : "");
    }
}

/* The rule file, and what its choice rests on. */
static void add_rules(struct lines *lines, const struct config *config, bool mode_is_set)
{
    char mode[MODE_TEXT_SIZE];
    lines_add(lines, "rules=%u of=%zu skipped-rows=%zu file=%s sha256=%s",
              config->table == NULL ? 0 : config->table->n_candidates, config->n_rules,
              config->n_warnings, config->path, config->sha256);
    if (config->detected || mode_is_set) {
        lines_add(lines, " mode=%s from=%s arch=%s device=0x%x cus=%u",
                  mode_text(config->mode, mode), mode_is_set ? "RCCLTUNE_MODE" : "sysfs",
                  config->machine.arch[0] != '\0' ? config->machine.arch : "?",
                  (unsigned)config->machine.device, (unsigned)config->machine.n_cus);
        if (config->machine.product[0] != '\0') {
            lines_add(lines, " product=%s", config->machine.product);
        }
    }
    add_library(lines, config);
    if (config->unmet_need[0] != '\0') {
        lines_add(lines, " needs=%s (not set; its rules may not be selectable)",
                  config->unmet_need);
    }
    lines_add(lines, "\n");
}

static void log_start(struct watch *watch, const struct config *config,
                      const struct settings *settings)
{
    struct lines lines = {.at = NULL};
    lines_add(&lines, "rccltune: comm=%s nodes=%llu ranks=%llu abi=v%u ", watch->id,
              (unsigned long long)watch->comm.n_nodes, (unsigned long long)watch->comm.n_ranks,
              watch->comm.abi);
    if (config->table == NULL) {
        lines_add(&lines, "inert: %s\n", config->reason);
    } else {
        add_rules(&lines, config, settings->mode_is_set);
    }
    flush_log(watch, &lines);
}

static bool name_log(struct watch *watch, const struct settings *settings, char *reason,
                     size_t size)
{
    if (settings->log_file != NULL &&
        !output_name(settings->log_file, watch->id, watch->comm.context, watch->log_path,
                     sizeof watch->log_path)) {
        (void)snprintf(reason, size,
                       REASON_VARIABLE
                       "RCCLTUNE_LOG: '%.200s' is no file name (%%h, %%p, %%c, %%n)",
                       settings->log_file);
        return false;
    }
    return true;
}

static void release(struct watch *watch)
{
    if (watch != NULL) {
        tally_free(&watch->tally);
        free(watch->hits);
    }
    free(watch);
}

enum output_start watch_start(const struct settings *settings, const struct config *config,
                              const struct output_comm *comm, struct watch **watch, char *reason,
                              size_t size)
{
    *watch = NULL;
    if (settings->log == LOG_OFF) {
        return OUTPUT_STARTED;
    }
    size_t n_candidates = config->table == NULL ? 0 : config->table->n_candidates;
    struct watch *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->hits = calloc(n_candidates + 1, sizeof *made->hits);
    }
    if (made == NULL || made->hits == NULL ||
        (settings->log == LOG_DECISIONS && !tally_make(&made->tally))) {
        release(made);
        (void)snprintf(reason, size, REASON_MEMORY "out of memory");
        return OUTPUT_NO_MEMORY;
    }
    made->log = settings->log;
    made->table = config->table;
    made->comm = *comm;
    (void)snprintf(made->id, sizeof made->id, "%s", comm->id);
    made->comm.id = made->id;
    if (!name_log(made, settings, reason, size)) {
        release(made);
        return OUTPUT_CANNOT;
    }
    log_start(made, config, settings);
    made->pid = process_id();
    enlist(made);
    *watch = made;
    return OUTPUT_STARTED;
}

/* Writes a cell as `ring/simple`; `-` for -1. */
static void add_cell(struct lines *lines, int cell, int n_protocols)
{
    if (cell < 0) {
        lines_add(lines, "-");
        return;
    }
    int algorithm = cell / n_protocols;
    int protocol = cell % n_protocols;
    if (algorithm < N_KNOWN_ALGORITHMS) {
        lines_add(lines, "%s/", algorithm_name(algorithm));
    } else {
        lines_add(lines, "algorithm%d/", algorithm);
    }
    if (protocol < N_KNOWN_PROTOCOLS) {
        lines_add(lines, "%s", protocol_name(protocol));
    } else {
        lines_add(lines, "protocol%d", protocol);
    }
}

/* Writes the cells that can be chosen, `tree/ll,ring/ll`; `-` where there is none. */
static void add_offered(struct lines *lines, const struct plugin_call *call)
{
    int n_cells = call->cells == NULL ? 0 : call->n_algorithms * call->n_protocols;
    const char *separator = "";
    for (int i = 0; i < n_cells; i++) {
        if (call->cells[i] >= 0.0F) {
            lines_add(lines, "%s", separator);
            add_cell(lines, i, call->n_protocols);
            separator = ",";
        }
    }
    if (separator[0] == '\0') {
        lines_add(lines, "-");
    }
}

/* Writes an answer as `tree/ll128`, `tree/ll128/16`, `-1/-1/16`, or `none`. */
static void add_answer(struct lines *lines, const struct candidate *answer)
{
    if (answer == NULL) {
        lines_add(lines, "none");
        return;
    }
    lines_add(lines, "%s/%s", algorithm_name(answer->algorithm), protocol_name(answer->protocol));
    if (answer->channels >= 1) {
        lines_add(lines, "/%d", (int)answer->channels);
    }
}

/* Why a call was answered so. */
static const char *reason_of(const struct watch *watch, const struct candidate *chosen,
                             uint32_t n_skipped, uint32_t n_unheld)
{
    if (watch->table == NULL) {
        return REASON_NO_RULES;
    }
    if (chosen == NULL) {
        const char *unmatched = n_unheld > 0 ? REASON_CONDITION : REASON_NO_RULE;
        return n_skipped > 0 ? REASON_UNSELECTABLE : unmatched;
    }
    if (chosen->algorithm == LEAVE_TO_HOST && chosen->channels < 1) {
        return REASON_TO_HOST;
    }
    return n_skipped > 0 ? REASON_FALLBACK : REASON_HIT;
}

static void log_decision(struct watch *watch, const struct plugin_call *call,
                         const struct candidate *chosen, const char *reason)
{
    struct lines lines = {.at = NULL};
    /* Hosts of version 2 show no costs; the table was the adapter's own. */
    int host_cell = watch->comm.abi == 2 ? -1 : plugin_host_cell(call);
    lines_add(&lines, "rccltune: comm=%s decision collective=%s nbytes=%llu answer=", watch->id,
              collective_name(call->collective), (unsigned long long)call->n_bytes);
    add_answer(&lines, chosen);
    lines_add(&lines, " line=%u host=", chosen == NULL ? 0 : (unsigned)chosen->line);
    add_cell(&lines, host_cell, call->n_protocols);
    lines_add(&lines, " offered=");
    add_offered(&lines, call);
    lines_add(&lines, " reason=%s\n", reason);
    flush_log(watch, &lines);
}

/* Whether a call is the first one of its collective and size; of those that are kept, the first
 * TALLY_MAX_KEYS.  The caller holds the lock. */
static bool is_new(struct watch *watch, const struct plugin_call *call)
{
    uint32_t before = tally_keys(&watch->tally);
    (void)tally_count(&watch->tally, call->collective, call->n_bytes);
    return tally_keys(&watch->tally) != before;
}

void watch_call(struct watch *watch, const struct plugin_call *call, const struct candidate *chosen,
                uint32_t n_skipped, uint32_t n_unheld)
{
    lock(&watch->busy);
    watch->n_calls++;
    if (chosen != NULL) {
        watch->n_hits++;
        watch->hits[chosen - watch->table->candidates]++;
        watch->n_fallbacks += n_skipped > 0 ? 1 : 0;
    } else if (n_skipped > 0) {
        watch->n_unselectable++;
    } else {
        watch->n_misses++;
    }
    if (watch->log == LOG_DECISIONS && is_new(watch, call)) {
        log_decision(watch, call, chosen, reason_of(watch, chosen, n_skipped, n_unheld));
    }
    unlock(&watch->busy);
}

static void log_end(struct watch *watch)
{
    struct lines lines = {.at = NULL};
    lines_add(&lines,
              "rccltune: comm=%s summary calls=%llu hits=%llu misses=%llu not-selectable=%llu "
              "fallbacks=%llu\n",
              watch->id, (unsigned long long)watch->n_calls, (unsigned long long)watch->n_hits,
              (unsigned long long)watch->n_misses, (unsigned long long)watch->n_unselectable,
              (unsigned long long)watch->n_fallbacks);
    for (uint32_t i = 0; watch->table != NULL && i < watch->table->n_candidates; i++) {
        const struct candidate *rule = &watch->table->candidates[i];
        if (watch->hits[i] > 0) {
            lines_add(&lines,
                      "rccltune: comm=%s rule line=%u setting=%s/%s channels=%d hits=%llu\n",
                      watch->id, (unsigned)rule->line, algorithm_name(rule->algorithm),
                      protocol_name(rule->protocol), (int)rule->channels,
                      (unsigned long long)watch->hits[i]);
        }
    }
    flush_log(watch, &lines);
}

void watch_end(struct watch *watch)
{
    if (watch == NULL) {
        return;
    }
    strike(watch);
    log_end(watch);
    release(watch);
}

/* Jobs that never destroy their communicators are the rule, and want to know what their rules did.
 * A lock that stays taken is not waited for, as in record.c. */
__attribute__((destructor)) static void sum_up_those_left(void)
{
    if (!lock_within(&listing, PATIENCE)) {
        return;
    }
    for (struct watch *watch = first; watch != NULL; watch = watch->next) {
        if (watch->pid == process_id() && lock_within(&watch->busy, PATIENCE)) {
            log_end(watch);
            unlock(&watch->busy);
        }
    }
    unlock(&listing);
}
