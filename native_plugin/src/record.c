#include "record.h"

#include "lock.h"
#include "names.h"
#include "reasons.h"
#include "tally.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    COMM_ID_SIZE = 32,
    HOST_SIZE = 256,
    FIRST_PAUSE = 1, /* seconds between two snapshots: as long as counting lasts, from this … */
    LONGEST_PAUSE = 30, /* … to this */
};

struct record {
    struct tally tally;
    _Atomic int64_t next_snapshot; /* seconds of the monotonic clock */
    int64_t started;
    lock_holder writing;
    bool over; /* written for good */
    bool failed;
    bool has_snapshot;
    pid_t pid; /* a fork's child must not write what its parent writes */
    struct timespec since;
    struct output_comm comm; /* comm.id is `id` */
    char id[COMM_ID_SIZE];
    char host[HOST_SIZE];
    char path[OUTPUT_PATH_SIZE];
    char snapshot[OUTPUT_PATH_SIZE];
    struct record *next; /* of `first` */
};

const char record_header[] =
    "#@ format 1\n"
    "# Calls that the tuner was asked about, by communicator; one counts once, also where NCCL "
    "asks\n"
    "# three times (2.31 and later).  Not in here: replays of captured graphs, point-to-point,\n"
    "# paths that ask no tuner, and how grouped calls were split.  Rows whose maxBytes differs\n"
    "# from nBytes hold all sizes between the two.\n"
    "collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes\n";

/* Every communicator of this process that is counted. */
static lock_holder listing;
static struct record *first;

static int64_t seconds(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec : 0;
}

/* What the rows of a communicator are added to. */
struct rows {
    const struct output_comm *comm;
    struct lines lines;
};

static void add_row(const struct tally_row *row, void *context)
{
    struct rows *rows = context;
    lines_add(&rows->lines, "%s,%llu,%llu,%llu,%llu,%llu,%llu\n", collective_name(row->collective),
              (unsigned long long)row->least, (unsigned long long)rows->comm->n_ranks,
              (unsigned long long)rows->comm->n_nodes, (unsigned long long)row->calls,
              (unsigned long long)row->most, (unsigned long long)row->n_bytes);
}

/* Everything counted so far, with a line in front that says whose it is and how it ended. */
static void describe(const struct record *record, const char *state, struct lines *lines)
{
    const struct tally *tally = &record->tally;
    struct rows rows = {.comm = &record->comm};
    uint64_t total = tally_read(tally, add_row, &rows);
    lines_add(lines,
              "#@ comm id=%s abi=%u host=%s pid=%ld context=%u since=%lld.%09ld nRanks=%llu "
              "nNodes=%llu calls=%llu keys=%u beyond=%llu unknown=%llu state=%s\n",
              record->id, record->comm.abi, record->host, (long)record->pid, record->comm.context,
              (long long)record->since.tv_sec, record->since.tv_nsec,
              (unsigned long long)record->comm.n_ranks, (unsigned long long)record->comm.n_nodes,
              (unsigned long long)total, (unsigned)tally_keys(tally),
              (unsigned long long)atomic_load_explicit(&tally->n_beyond, memory_order_relaxed),
              (unsigned long long)atomic_load_explicit(&tally->n_unknown, memory_order_relaxed),
              state);
    if (rows.lines.used > 0) {
        lines_add(lines, "%s", rows.lines.at);
    }
    lines->failed = lines->failed || rows.lines.failed;
    lines_free(&rows.lines);
}

static void complain(struct record *record, const char *path, const char *trouble)
{
    if (!record->failed) { /* said once */
        output_say("rccltune: error: comm=%s: " REASON_RECORD
                   "the record could not be written to %s: %s; calls of "
                   "this communicator are missing there\n",
                   record->id, path, trouble);
    }
    record->failed = true;
}

/* Puts what was counted beside the file: what is left of a rank that is killed. */
static void write_snapshot(struct record *record)
{
    struct lines lines = {.at = NULL};
    lines_add(&lines, "%s", record_header);
    describe(record, "unfinished", &lines);
    const char *trouble =
        lines.failed ? "out of memory"
                     : output_replace(record->snapshot, (struct text){lines.at, lines.used});
    if (trouble == NULL) {
        record->has_snapshot = true;
    } else {
        complain(record, record->snapshot, trouble);
    }
    lines_free(&lines);
}

/* Appends what was counted to the file.  The snapshot goes last: better twice than not at all, and
 * a reader knows by the line in front that both are the same. */
static void write_whole(struct record *record, const char *state)
{
    struct lines lines = {.at = NULL};
    describe(record, state, &lines);
    const char *trouble = lines.failed ? "out of memory"
                                       : output_append(record->path, record_header,
                                                       (struct text){lines.at, lines.used});
    if (trouble != NULL) {
        complain(record, record->path, trouble);
        write_snapshot(record);
    } else if (record->has_snapshot) {
        (void)unlink(record->snapshot);
    }
    lines_free(&lines);
    record->over = true;
}

/* Now and then, from a call: one thread writes, the others go on. */
__attribute__((noinline)) static void look_at_clock(struct record *record)
{
    int64_t now = seconds();
    if (now < atomic_load_explicit(&record->next_snapshot, memory_order_relaxed) ||
        record->pid != process_id() || !lock_within(&record->writing, 1)) {
        return;
    }
    if (now >= atomic_load_explicit(&record->next_snapshot, memory_order_relaxed) &&
        !record->over && !record->failed) {
        int64_t pause = now - record->started;
        pause = pause < FIRST_PAUSE ? FIRST_PAUSE : pause > LONGEST_PAUSE ? LONGEST_PAUSE : pause;
        write_snapshot(record);
        atomic_store_explicit(&record->next_snapshot, now + pause, memory_order_relaxed);
    }
    unlock(&record->writing);
}

__attribute__((noinline)) static void count_elsewhere(struct record *record, int collective,
                                                      uint64_t n_bytes)
{
    if (tally_count(&record->tally, collective, n_bytes)) {
        look_at_clock(record);
    }
}

void record_count(struct record *record, int collective, uint64_t n_bytes)
{
    struct tally_slot *slot = tally_known(&record->tally, collective, n_bytes);
    if (slot == NULL) {
        count_elsewhere(record, collective, n_bytes);
    } else if (tally_add(slot)) {
        look_at_clock(record);
    }
}

static bool name_files(struct record *record, const char *pattern, char *reason, size_t size)
{
    char beside[OUTPUT_PATH_SIZE];
    const char *trouble = "it is no file name (%h, %p, %c, %n)";
    /* With the time: a process of the same number may have been killed before, and left its own. */
    int length = snprintf(beside, sizeof beside, "%s.%%h-%%p-%%n-%lld.part", pattern,
                          (long long)record->since.tv_sec);
    if (length > 0 && (size_t)length < sizeof beside &&
        output_name("%h", "", 0, record->host, sizeof record->host) &&
        output_name(pattern, record->id, record->comm.context, record->path, sizeof record->path) &&
        output_name(beside, record->id, record->comm.context, record->snapshot,
                    sizeof record->snapshot)) {
        /* The file is made now: a job must not run for hours and have recorded nothing. */
        trouble = output_append(record->path, record_header, text_of(""));
    }
    if (trouble != NULL) {
        (void)snprintf(reason, size,
                       REASON_RECORD "RCCLTUNE_RECORD: '%.200s' cannot be written: %s", pattern,
                       trouble);
    }
    return trouble == NULL;
}

static void enlist(struct record *record)
{
    lock(&listing);
    record->next = first;
    first = record;
    unlock(&listing);
}

static void strike(const struct record *record)
{
    lock(&listing);
    struct record **at = &first;
    while (*at != record) {
        at = &(*at)->next;
    }
    *at = record->next;
    unlock(&listing);
}

static void release(struct record *record)
{
    if (record != NULL) {
        tally_free(&record->tally);
    }
    free(record);
}

enum output_start record_start(const struct settings *settings, const struct output_comm *comm,
                               struct record **record, char *reason, size_t size)
{
    *record = NULL;
    if (settings->record == NULL) {
        return OUTPUT_STARTED;
    }
    struct record *made = calloc(1, sizeof *made);
    if (made == NULL || !tally_make(&made->tally)) {
        (void)snprintf(reason, size, REASON_MEMORY "out of memory");
        release(made);
        return OUTPUT_NO_MEMORY;
    }
    made->comm = *comm;
    (void)snprintf(made->id, sizeof made->id, "%s", comm->id);
    made->comm.id = made->id;
    made->pid = process_id();
    made->started = seconds();
    (void)clock_gettime(CLOCK_REALTIME, &made->since);
    if (!name_files(made, settings->record, reason, size)) {
        release(made);
        return OUTPUT_CANNOT;
    }
    enlist(made);
    *record = made;
    return OUTPUT_STARTED;
}

void record_end(struct record *record)
{
    if (record == NULL) {
        return;
    }
    strike(record);
    lock(&record->writing);
    if (!record->over) {
        write_whole(record, "whole");
    }
    release(record);
}

/* Jobs that never destroy their communicators are the rule.  A lock that stays taken is not waited
 * for: the process may end in the midst of a snapshot, which then is what is left. */
__attribute__((destructor)) static void write_those_left(void)
{
    if (!lock_within(&listing, PATIENCE)) {
        return;
    }
    for (struct record *record = first; record != NULL; record = record->next) {
        if (record->pid == process_id() && lock_within(&record->writing, PATIENCE)) {
            if (!record->over) {
                write_whole(record, "exit");
            }
            unlock(&record->writing);
        }
    }
    unlock(&listing);
}
