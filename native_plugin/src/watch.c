#include "watch.h"

#include "lock.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMM_ID_SIZE = 32, SETTING_SIZE = 64 };

struct watch {
    lock_holder busy;
    pid_t pid;          /* that made it */
    struct watch *next; /* of the list of those that log */
    enum log_level log;
    bool keeps_trace;
    bool log_failed;
    bool log_is_short; /* memory ran out; said once */
    char id[COMM_ID_SIZE];
    struct trace_comm comm;          /* comm.id is `id` */
    char log_path[OUTPUT_PATH_SIZE]; /* "": stderr */
    char trace_path[OUTPUT_PATH_SIZE];
    bool trace_failed;
    char setting[SETTING_SIZE]; /* in force */
    uint32_t step;
    uint32_t n_begun;      /* steps of the schedule, the silence behind the last one included */
    uint32_t n_steps;      /* of the schedule; 0: there is none */
    uint64_t n_step_calls; /* since the step began */
    const struct rule_table *table; /* outlives the watcher */
    uint64_t *hits;                 /* per candidate of the table */
    uint64_t n_calls;
    uint64_t n_hits;
    uint64_t n_misses;
    uint64_t n_unselectable; /* a rule matched, none was selectable */
    uint64_t n_fallbacks;    /* hits after a rule that was not selectable */
    struct trace trace;
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
        output_say("rccltune: error: comm=%s: out of memory, lines of the log are missing\n",
                   watch->id);
        watch->log_is_short = true;
    }
    if (watch->log_path[0] != '\0' && !watch->log_failed) {
        const char *trouble = output_append(watch->log_path, "", content);
        if (trouble == NULL) {
            lines_free(lines);
            return;
        }
        output_say("rccltune: error: comm=%s: the log goes on here, %s could not be written: %s\n",
                   watch->id, watch->log_path, trouble);
        watch->log_failed = true;
    }
    output_tell(content);
    lines_free(lines);
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
    }
    if (config->unmet_need[0] != '\0') {
        lines_add(lines, " needs=%s (not set; its rules may not be selectable)",
                  config->unmet_need);
    }
    lines_add(lines, "\n");
}

/* What a schedule puts aside is said, so that nobody wonders about rules that did not work. */
static void add_schedule(struct lines *lines, const struct config *config,
                         const struct settings *settings)
{
    lines_add(lines, "schedule=%s steps=%u calls=%llu sha256=%s ", config->schedule_path,
              (unsigned)config->schedule->n_steps, (unsigned long long)config->schedule->n_calls,
              config->schedule_sha256);
    if (config->schedule->has_rules) {
        add_rules(lines, config, settings->mode_is_set);
        return;
    }
    lines_add(lines, "rules=not-read");
    if (settings->rule_file != NULL || settings->rule_dir != NULL) {
        lines_add(lines, " (%s is set, and a schedule goes before it)",
                  settings->rule_file != NULL ? "NCCL_TUNER_CONFIG_FILE" : "RCCLTUNE_CONFIG_DIR");
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
    if (config->schedule != NULL) {
        add_schedule(&lines, config, settings);
    } else if (config->table == NULL) {
        lines_add(&lines, "inert: %s\n", config->reason);
    } else {
        add_rules(&lines, config, settings->mode_is_set);
    }
    flush_log(watch, &lines);
}

static bool open_outputs(struct watch *watch, const struct settings *settings, char *reason,
                         size_t size)
{
    const char *trouble = "it is no file name (%h, %p, %c, %n)";
    if (settings->log != LOG_OFF && settings->log_file != NULL &&
        !output_name(settings->log_file, watch->id, watch->comm.context, watch->log_path,
                     sizeof watch->log_path)) {
        (void)snprintf(reason, size, "RCCLTUNE_LOG: '%.200s' is no file name (%%h, %%p, %%c, %%n)",
                       settings->log_file);
        return false;
    }
    if (settings->trace == NULL) {
        return true;
    }
    /* The file is made now: a measurement that cannot be written down must not begin. */
    if (output_name(settings->trace, watch->id, watch->comm.context, watch->trace_path,
                    sizeof watch->trace_path)) {
        trouble = output_append(watch->trace_path, trace_header, text_of(""));
    }
    if (trouble != NULL) {
        (void)snprintf(reason, size, "RCCLTUNE_TRACE: '%.200s' cannot be written: %s",
                       settings->trace, trouble);
        return false;
    }
    watch->keeps_trace = true;
    return true;
}

enum output_start watch_start(const struct settings *settings, const struct config *config,
                              const struct trace_comm *comm, struct watch **watch, char *reason,
                              size_t size)
{
    *watch = NULL;
    if (settings->log == LOG_OFF && settings->trace == NULL) {
        return OUTPUT_STARTED;
    }
    size_t n_candidates = config->table == NULL ? 0 : config->table->n_candidates;
    struct watch *made = calloc(1, sizeof *made);
    uint64_t *hits = calloc(n_candidates + 1, sizeof *hits);
    if (made == NULL || hits == NULL) {
        free(made);
        free(hits);
        (void)snprintf(reason, size, "out of memory");
        return OUTPUT_NO_MEMORY;
    }
    made->log = settings->log;
    made->hits = hits;
    made->table = config->table;
    made->n_steps = config->schedule == NULL ? 0 : config->schedule->n_steps;
    (void)snprintf(made->setting, sizeof made->setting, "%s",
                   config->table == NULL || config->schedule != NULL ? "silent" : "rules");
    made->comm = *comm;
    (void)snprintf(made->id, sizeof made->id, "%s", comm->id);
    made->comm.id = made->id;
    if (!open_outputs(made, settings, reason, size)) {
        free(made->hits);
        free(made);
        return OUTPUT_CANNOT;
    }
    if (made->log != LOG_OFF) {
        log_start(made, config, settings);
        made->pid = process_id();
        enlist(made);
    }
    *watch = made;
    return OUTPUT_STARTED;
}

static void log_decision(struct watch *watch, const struct trace_record *record)
{
    struct lines lines = {.at = NULL};
    const struct trace_call *call = &record->first;
    lines_add(&lines, "rccltune: comm=%s decision collective=%s nbytes=%llu answer=", watch->id,
              collective_name(call->collective), (unsigned long long)call->n_bytes);
    trace_add_answer(&lines, call);
    lines_add(&lines, " line=%u host=", call->has_answer ? (unsigned)call->answer.line : 0);
    trace_add_cell(&lines, call->host_choice, call->n_protocols);
    lines_add(&lines, "\n");
    flush_log(watch, &lines);
}

static void append_trace(struct watch *watch, struct lines *lines)
{
    const char *trouble = lines->failed ? "out of memory" : NULL;
    if (trouble == NULL && !watch->trace_failed) {
        trouble =
            output_append(watch->trace_path, trace_header, (struct text){lines->at, lines->used});
    }
    if (trouble != NULL && !watch->trace_failed) {
        output_say("rccltune: error: comm=%s: the trace could not be written to %s: %s; what was "
                   "asked since its last step is missing\n",
                   watch->id, watch->trace_path, trouble);
        watch->trace_failed = true; /* nothing may follow a row that was cut */
    }
    lines_free(lines);
}

/* The records of the step in force into `lines`; what comes is another step's. */
static void end_step(struct watch *watch, uint32_t next, struct lines *lines)
{
    if (watch->keeps_trace && watch->n_begun > 0) {
        trace_write(&watch->trace, &watch->comm, watch->step, watch->setting, lines);
    }
    trace_clear(&watch->trace);
    watch->step = next;
    watch->n_step_calls = 0;
}

void watch_step(struct watch *watch, uint32_t step, const struct schedule_step *begun)
{
    const struct candidate *answer = schedule_answer(begun);
    struct lines setting = {.at = NULL};
    struct lines lines = {.at = NULL};
    lock(&watch->busy);
    end_step(watch, step, &lines);
    watch->n_begun++;
    if (answer != NULL) {
        trace_add_setting(&setting, answer);
    } else {
        lines_add(&setting, "%s", begun == NULL ? "overrun" : begun->rules ? "rules" : "silent");
    }
    (void)text_copy((struct text){setting.at, setting.used}, watch->setting, sizeof watch->setting);
    if (watch->keeps_trace) {
        lines_add(&lines, "#@ begin comm=%s context=%u step=%u of=%u setting=%s\n", watch->id,
                  watch->comm.context, (unsigned)step, (unsigned)watch->n_steps, watch->setting);
        lines.failed = lines.failed || setting.failed;
        append_trace(watch, &lines);
    }
    if (watch->log == LOG_DECISIONS) {
        lines_add(&lines, "rccltune: comm=%s step=%u of=%u setting=%s\n", watch->id, (unsigned)step,
                  (unsigned)watch->n_steps, watch->setting);
        flush_log(watch, &lines);
    }
    unlock(&watch->busy);
    lines_free(&setting);
}

void watch_call(struct watch *watch, struct trace_call *call, const struct candidate *chosen,
                uint32_t index, uint32_t n_skipped)
{
    call->has_answer = chosen != NULL;
    if (watch->comm.abi == 2) {
        call->host_choice = -1; /* such hosts show no costs; the table was the adapter's own */
    }
    if (chosen != NULL) {
        call->answer = *chosen;
    }
    lock(&watch->busy);
    watch->n_calls++;
    watch->n_step_calls++;
    if (chosen != NULL) {
        watch->n_hits++;
        if (index != WATCH_NO_RULE) {
            watch->hits[index]++;
        }
        watch->n_fallbacks += n_skipped > 0 ? 1 : 0;
    } else if (n_skipped > 0) {
        watch->n_unselectable++;
    } else {
        watch->n_misses++;
    }
    if (watch->keeps_trace || watch->log == LOG_DECISIONS) {
        const struct trace_record *record = trace_count(&watch->trace, call);
        if (record != NULL && watch->log == LOG_DECISIONS) {
            log_decision(watch, record);
        }
    }
    unlock(&watch->busy);
}

/* Calls that came when all steps were over. */
static uint64_t overrun(const struct watch *watch)
{
    return watch->n_steps > 0 && watch->step == watch->n_steps ? watch->n_step_calls : 0;
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
    if (watch->n_steps > 0) {
        lines_add(&lines, "rccltune: comm=%s schedule begun=%u of=%u overrun-calls=%llu\n",
                  watch->id, (unsigned)watch->n_begun, (unsigned)watch->n_steps,
                  (unsigned long long)overrun(watch));
    }
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

static void write_trace(struct watch *watch)
{
    struct lines lines = {.at = NULL};
    trace_write(&watch->trace, &watch->comm, watch->step, watch->setting, &lines);
    if (watch->n_steps > 0) {
        lines_add(&lines, "#@ end comm=%s context=%u begun=%u of=%u overrun-calls=%llu\n",
                  watch->id, watch->comm.context, (unsigned)watch->n_begun,
                  (unsigned)watch->n_steps, (unsigned long long)overrun(watch));
    }
    append_trace(watch, &lines);
}

void watch_end(struct watch *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->keeps_trace) {
        write_trace(watch);
    }
    if (watch->log != LOG_OFF) {
        strike(watch);
        log_end(watch);
    }
    trace_free(&watch->trace);
    free(watch->hits);
    free(watch);
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
