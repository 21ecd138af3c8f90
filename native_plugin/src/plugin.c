#include "plugin.h"

#include "answer.h"
#include "config.h"
#include "names.h"
#include "process.h"
#include "reasons.h"
#include "record.h"
#include "tuner_abi.h"
#include "watch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Immutable after plugin_init, but for what the watcher keeps behind its own lock and for what the
 * record counts. */
struct plugin {
    struct rule_table *table; /* NULL where a rank program says what is answered, and where only a
                                 log or a record was asked for */
    struct rule_table *program_rules; /* what such a program may answer with; may be NULL */
    bool by_program;                  /* it says what is answered (rccltune_answer.h) */
    bool keeps_bits;                  /* of results, as long as a rule answers each call */
    bool shows_table;                 /* cells are the host's own: not in version 2 */
    struct watch *watch;              /* NULL unless asked for */
    struct record *record;            /* the same */
    bool is_noted;                    /* somebody counts, logs, or says what is answered */
    _Atomic uint64_t cell_less;       /* key of the question before, where it had no cell; else 0 */
    pid_t pid;                        /* a fork's child must not write what its parent writes */
};

/* For plugin_as_in_a_job; a rank program has one thread. */
static struct plugin *newest_of_program;

static void complain(const struct plugin_comm *comm, const char *reason, bool unsure)
{
    output_say("rccltune: error: nodes=%llu ranks=%llu: %s\n%s"
               "rccltune: RCCLTUNE_ON_ERROR=ignore, on all ranks or on none, goes on without "
               "rules.\n",
               (unsigned long long)comm->n_nodes, (unsigned long long)comm->n_ranks, reason,
               unsure ? "rccltune: this may concern this rank alone.  It stops here because one "
                        "rank without rules among tuned ones hangs the job; other ranks may "
                        "already hang (older libraries start the tuner after the transports).  "
                        "RCCLTUNE_MODE on all ranks makes the choice without detection.\n"
                      : "");
}

/* Says once in a process that the rules were measured with another library. */
static void warn_of_library(const struct config *config)
{
    static atomic_bool said;
    char wanted[LIBRARY_TEXT_SIZE];
    char found[LIBRARY_TEXT_SIZE];
    if (!atomic_exchange(&said, true)) {
        output_say("rccltune: warning: " REASON_LIBRARY
                   "%s has rules for %s, and this job runs %s: whether they "
                   "are good there is not known; rccltune verify says it, RCCLTUNE_STRICT=1 on all "
                   "ranks refuses them\n",
                   config->path, library_text(&config->wanted_library, wanted),
                   library_text(&config->library, found));
    }
}

/* A communicator's name in logs and file names.  Older hosts give no id: a number that is unique in
 * this process stands in for it. */
static void name_comm(const struct plugin_comm *comm, char *buffer, size_t size)
{
    static atomic_uint serial;
    if (comm->has_id) {
        (void)snprintf(buffer, size, "%016llx", (unsigned long long)comm->id);
    } else {
        (void)snprintf(buffer, size, "local%u",
                       atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    }
}

/* Whether a job goes on without a log or a record that cannot be; it is told. */
static bool goes_on(const struct settings *settings, const char *id, const char *reason)
{
    if (settings->ignore_errors) {
        output_say("rccltune: error: comm=%s: %s; the job goes on without it\n", id, reason);
    }
    return settings->ignore_errors;
}

static enum plugin_status start(const struct plugin_comm *comm, const struct settings *settings,
                                struct config *config, struct plugin **plugin)
{
    static atomic_uint n_contexts;
    char id[32];
    char reason[CONFIG_REASON_SIZE];
    struct watch *watch = NULL;
    struct record *record = NULL;
    name_comm(comm, id, sizeof id);
    struct output_comm named = {
        .id = id,
        .context = atomic_fetch_add_explicit(&n_contexts, 1, memory_order_relaxed),
        .n_nodes = comm->n_nodes,
        .n_ranks = comm->n_ranks,
        .abi = comm->abi,
    };
    enum output_start started =
        watch_start(settings, config, &named, &watch, reason, sizeof reason);
    bool on = started == OUTPUT_STARTED || goes_on(settings, id, reason);
    if (on) {
        started = record_start(settings, &named, &record, reason, sizeof reason);
        on = started == OUTPUT_STARTED || goes_on(settings, id, reason);
    }
    if (!on) {
        watch_end(watch);
        complain(comm, reason, started == OUTPUT_NO_MEMORY);
        return started == OUTPUT_NO_MEMORY ? PLUGIN_UNSURE : PLUGIN_WRONG;
    }
    bool by_program = answer_is_told();
    if (watch == NULL && record == NULL && config->table == NULL && !by_program) {
        return PLUGIN_READY; /* inert: no context, nothing to release */
    }
    *plugin = calloc(1, sizeof **plugin);
    if (*plugin == NULL) {
        watch_end(watch);
        record_end(record);
        if (settings->ignore_errors) {
            return PLUGIN_READY;
        }
        complain(comm, REASON_MEMORY "out of memory", true);
        return PLUGIN_UNSURE;
    }
    if (by_program) {
        (*plugin)->program_rules = config->table;
    } else {
        (*plugin)->table = config->table;
    }
    (*plugin)->watch = watch;
    (*plugin)->record = record;
    (*plugin)->shows_table = comm->abi > 2;
    (*plugin)->keeps_bits = config->keeps_bits && (*plugin)->table != NULL;
    (*plugin)->by_program = by_program;
    (*plugin)->is_noted = watch != NULL || record != NULL || by_program;
    (*plugin)->pid = process_id();
    if (by_program) { /* in a job nobody writes it: its threads make communicators at once */
        newest_of_program = *plugin;
    }
    config->table = NULL;
    return PLUGIN_READY;
}

enum plugin_status plugin_init(const struct plugin_comm *comm, struct plugin **plugin)
{
    struct settings settings;
    struct config config = {.table = NULL};
    enum config_outcome outcome = CONFIG_NOTHING;
    *plugin = NULL;
    if (comm->n_ranks <= 1) {
        return PLUGIN_READY; /* nothing to choose, so nothing to read */
    }
    if (settings_read(&settings, config.reason, sizeof config.reason)) {
        outcome = config_load(&settings, comm->n_nodes, comm->n_ranks, comm->host, &config);
    } else {
        outcome = CONFIG_WRONG;
    }
    bool failed = outcome == CONFIG_WRONG || outcome == CONFIG_UNSURE;
    if (failed && !settings.ignore_errors) {
        complain(comm, config.reason, outcome == CONFIG_UNSURE);
        return outcome == CONFIG_UNSURE ? PLUGIN_UNSURE : PLUGIN_WRONG;
    }
    if (outcome == CONFIG_RULES && config_is_of_another_library(&config)) {
        warn_of_library(&config);
    }
    enum plugin_status status = start(comm, &settings, &config, plugin);
    config_release(&config); /* whatever start() did not take */
    return status;
}

int plugin_host_cell(const struct plugin_call *call)
{
    int n_cells = call->cells == NULL ? 0 : call->n_algorithms * call->n_protocols;
    int lowest = -1;
    for (int i = 0; i < n_cells; i++) {
        if (call->cells[i] >= 0.0F && (lowest < 0 || call->cells[i] < call->cells[lowest])) {
            lowest = i;
        }
    }
    return lowest;
}

/* Whether a rule's own conditions, beyond collective and size, hold for a call. */
static bool holds(const struct candidate *rule, const struct plugin_call *call)
{
    return (rule->n_pipe_ops < 0 || rule->n_pipe_ops == call->n_pipe_ops) &&
           (rule->reg_buff < 0 || rule->reg_buff == call->reg_buff);
}

static bool has_cell(const struct candidate *rule, const struct plugin_call *call)
{
    return call->cells != NULL && rule->algorithm < call->n_algorithms &&
           rule->protocol < call->n_protocols;
}

/* Whether the host lets a rule's cell be chosen.  `>= 0` and not `!= -1`: fp8 on more than 8 ranks
 * multiplies cells by 1024, the -1 ones included (RCCL 2.28.3 src/enqueue.cc).  A NaN fails as it
 * should. */
static bool is_selectable(const struct candidate *rule, const struct plugin_call *call)
{
    if (rule->algorithm == LEAVE_TO_HOST) {
        return true;
    }
    return has_cell(rule, call) && call->cells[(size_t)rule->algorithm * (size_t)call->n_protocols +
                                               (size_t)rule->protocol] >= 0.0F;
}

static bool offers_a_cell(const struct plugin_call *call)
{
    int n_cells = call->cells == NULL ? 0 : call->n_algorithms * call->n_protocols;
    for (int i = 0; i < n_cells; i++) {
        if (call->cells[i] >= 0.0F) {
            return true;
        }
    }
    return false;
}

/* Never 0.  Sizes that lose bits here are no message's. */
static uint64_t key_of(const struct plugin_call *call)
{
    uint64_t pipe_ops = (unsigned)call->n_pipe_ops & 0xFFFU;
    uint64_t collective = ((unsigned)call->collective & 7U) + 1;
    return call->n_bytes << 16 | pipe_ops << 4 | collective;
}

/* Of a question without a cell, or behind one: see is_about_a_call. */
__attribute__((noinline)) static bool repeats_none(struct plugin *plugin,
                                                   const struct plugin_call *call, uint64_t before)
{
    uint64_t key = key_of(call);
    bool is_offered = offers_a_cell(call);
    atomic_store_explicit(&plugin->cell_less, is_offered ? 0 : key, memory_order_relaxed);
    return is_offered && before != key;
}

/*
 * Whether a question is the one about a call that counts.
 *
 * NCCL 2.31.2 (and 2.32.3) asks three times about a call that symmetric kernels could serve.  First
 * for those, without a cell (src/scheduler/symmetric_sched.cc:200, 2.32.3: 206; numPipeOps 0, bytes
 * of one rank in whole KiB); where none of them may run, which kernel would without them, by the
 * same arguments (src/tuning/tuning.cc:279 and :289; the answer is thrown away); and then with the
 * call's own (src/enqueue/enqueue.cc:502, the numPipeOps of a group), which decides what runs.  So
 * a question without a cell is none of ours, nor is the next one where it repeats it.  Two threads
 * that ask at once for one communicator may count a call more or less.
 */
static inline bool is_about_a_call(struct plugin *plugin, const struct plugin_call *call)
{
    uint64_t before = atomic_load_explicit(&plugin->cell_less, memory_order_relaxed);
    return (before == 0 && offers_a_cell(call)) || repeats_none(plugin, call, before);
}

/* The first candidate of a segment that holds and can be selected, looked at one by one; the
 * watcher, where there is one, is told of a question that counts. */
__attribute__((noinline)) static const struct candidate *decide_among(
    struct plugin *plugin, const struct plugin_call *call, const struct rule_table *table,
    const struct segment_list *segment, bool counts)
{
    const struct candidate *chosen = NULL;
    uint32_t count = segment != NULL ? segment->count : 0;
    uint32_t n_skipped = 0;
    uint32_t n_unheld = 0;
    for (uint32_t i = 0; i < count && chosen == NULL; i++) {
        const struct candidate *rule = &table->candidates[table->order[segment->first + i]];
        if (holds(rule, call)) {
            chosen = is_selectable(rule, call) ? rule : NULL;
            n_skipped += chosen == NULL ? 1 : 0;
        } else {
            n_unheld++;
        }
    }
    if (plugin->watch != NULL && counts) {
        watch_call(plugin->watch, call, chosen, n_skipped, n_unheld);
    }
    return chosen;
}

/* What a rank program says, where the host lets it be chosen. */
static const struct candidate *decide_by_program(struct plugin *plugin,
                                                 const struct plugin_call *call, bool counts)
{
    const struct rule_table *table = plugin->program_rules;
    const struct candidate *chosen = NULL;
    if (answer_kind() == RCCLTUNE_ANSWER_RULES && table != NULL) {
        chosen = decide_among(plugin, call, table,
                              rule_table_segment(table, (unsigned)call->collective, call->n_bytes),
                              counts);
    } else if (answer_kind() == RCCLTUNE_ANSWER_SETTING) {
        chosen = is_selectable(answer_setting(), call) ? answer_setting() : NULL;
    }
    answer_note(call, chosen, plugin->shows_table, counts);
    return chosen;
}

static const struct candidate *decide_without_table(struct plugin *plugin,
                                                    const struct plugin_call *call, bool counts)
{
    if (plugin->by_program) {
        return decide_by_program(plugin, call, counts);
    }
    if (plugin->watch != NULL && counts) {
        watch_call(plugin->watch, call, NULL, 0, 0);
    }
    return NULL;
}

/* Apart from plugin_decide, whose way this is not: somebody logs or measures, or there are no
 * rules. */
__attribute__((noinline)) static const struct candidate *decide_and_tell(
    struct plugin *plugin, const struct plugin_call *call, bool counts)
{
    if ((unsigned)call->collective >= TABLE_N_COLLECTIVES) {
        return NULL;
    }
    if (plugin->table == NULL) {
        return decide_without_table(plugin, call, counts);
    }
    return decide_among(
        plugin, call, plugin->table,
        rule_table_segment(plugin->table, (unsigned)call->collective, call->n_bytes), counts);
}

/* Says once in a process that a call's results may have other bits: no rule answers it, whose
 * size no probe had, or which the library does not let be chosen here. */
__attribute__((noinline)) static void warn_of_bits(const struct plugin *plugin,
                                                   const struct plugin_call *call)
{
    static atomic_bool said;
    bool adds = call->collective == ABI_ALL_REDUCE || call->collective == ABI_REDUCE_SCATTER ||
                call->collective == ABI_REDUCE;
    if (!adds || !offers_a_cell(call) || atomic_exchange(&said, true)) {
        return;
    }
    const struct segment_list *segment =
        rule_table_segment(plugin->table, (unsigned)call->collective, call->n_bytes);
    bool has_rule = segment != NULL && segment->count > 0;
    output_say("rccltune: warning: " REASON_BITS "%s of %llu bytes: %s, so that its results may "
               "have other bits than those of other sizes (docs/bits.md)\n",
               collective_name(call->collective), (unsigned long long)call->n_bytes,
               has_rule ? "the library does not let its rule's setting be chosen"
                        : "no rule reaches so far");
}

/* What a job waits for: no lock, no allocation, no getenv, and no output unless somebody watches.
 */
static inline const struct candidate *decide(struct plugin *plugin, const struct plugin_call *call)
{
    if (plugin->is_noted) {
        bool counts = is_about_a_call(plugin, call);
        if (counts && plugin->record != NULL) {
            record_count(plugin->record, call->collective, call->n_bytes);
        }
        if (plugin->watch != NULL || plugin->table == NULL) {
            return decide_and_tell(plugin, call, counts);
        }
    }
    if ((unsigned)call->collective >= TABLE_N_COLLECTIVES) {
        return NULL;
    }
    const struct segment_list *segment =
        rule_table_segment(plugin->table, (unsigned)call->collective, call->n_bytes);
    if (segment == NULL || segment->count == 0) {
        return NULL;
    }
    if (holds(&segment->head, call) && is_selectable(&segment->head, call)) {
        return &segment->head;
    }
    return segment->count > 1 ? decide_among(plugin, call, plugin->table, segment, false) : NULL;
}

const struct candidate *plugin_decide(struct plugin *plugin, const struct plugin_call *call)
{
    const struct candidate *chosen = plugin != NULL ? decide(plugin, call) : NULL;
    if (chosen == NULL && plugin != NULL && plugin->keeps_bits) {
        warn_of_bits(plugin, call);
    }
    return chosen;
}

struct plugin *plugin_as_in_a_job(void)
{
    static struct plugin like_a_job;
    if (newest_of_program == NULL || newest_of_program->program_rules == NULL) {
        return NULL;
    }
    like_a_job = (struct plugin){.table = newest_of_program->program_rules,
                                 .shows_table = newest_of_program->shows_table};
    return &like_a_job;
}

void plugin_finalize(struct plugin *plugin)
{
    if (plugin == NULL || plugin->pid != process_id()) {
        return;
    }
    if (newest_of_program == plugin) {
        newest_of_program = NULL;
    }
    watch_end(plugin->watch); /* first: it reads the table */
    record_end(plugin->record);
    rule_table_free(plugin->table);
    rule_table_free(plugin->program_rules);
    free(plugin);
}
