#include "record.h"

#include "lock.h"
#include "names.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    COMM_ID_SIZE = 32,
    HOST_SIZE = 256,
    NEAR_BITS = 13, /* 128 KiB of slots: what a job asks for stays in the cache */
    FAR_BITS = 17,  /* what does not fit there; pages that no key falls into cost nothing */
    N_LEVELS = 2,
    COLLECTIVE_BITS = 3, /* of a key, below nBytes; 0 is a free slot */
    N_POWERS = 65,       /* [0], [1], [2,3], [4,7], …, [2^63,2^64-1] */
    CALLS_PER_LOOK = 256,
    FIRST_PAUSE = 1, /* seconds between two snapshots: as long as counting lasts, from this … */
    LONGEST_PAUSE = 30, /* … to this */
    PATIENCE = 1 << 20, /* turns that the end of a process waits for a snapshot */
};

_Static_assert(TABLE_N_COLLECTIVES < 1 << COLLECTIVE_BITS, "a collective fits into a key");

struct slot {
    _Atomic uint64_t key; /* nBytes << COLLECTIVE_BITS | collective + 1 */
    _Atomic uint64_t calls;
};

/* An open-addressed table, never more than half full. */
struct level {
    struct slot *slots;
    unsigned bits; /* of the number of slots */
    uint32_t most; /* keys */
    _Atomic uint32_t n_keys;
};

/* Calls whose size was not kept. */
struct power {
    _Atomic uint64_t calls;
    _Atomic uint64_t n_bytes; /* of all of them */
};

struct record {
    struct level levels[N_LEVELS]; /* a key goes to the first one that has room */
    _Atomic uint64_t n_beyond;     /* calls that are in `powers` */
    _Atomic uint64_t n_unknown;    /* calls of a collective without a name */
    struct power powers[TABLE_N_COLLECTIVES][N_POWERS];
    _Atomic int64_t next_snapshot; /* seconds of the monotonic clock */
    int64_t started;
    atomic_flag writing;
    bool over; /* written for good */
    bool failed;
    bool has_snapshot;
    pid_t pid; /* a fork's child must not write what its parent writes */
    struct timespec since;
    struct trace_comm comm; /* comm.id is `id` */
    char id[COMM_ID_SIZE];
    char host[HOST_SIZE];
    char path[OUTPUT_PATH_SIZE];
    char snapshot[OUTPUT_PATH_SIZE];
    struct record *next; /* of `first` */
};

const char record_header[] =
    "#@ format 1\n"
    "# What the tuner was asked, by communicator.  Not in here: replays of captured graphs,\n"
    "# point-to-point, paths that ask no tuner, and how grouped calls were split.  Rows whose\n"
    "# maxBytes differs from nBytes hold all sizes between the two.\n"
    "collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes\n";

/* Every communicator of this process that is counted. */
static atomic_flag listing = ATOMIC_FLAG_INIT;
static struct record *first;

static int64_t seconds(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec : 0;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint32_t n_keys(const struct level *level)
{
    return atomic_load_explicit(&level->n_keys, memory_order_relaxed);
}

static void add_row(const struct record *record, int collective, uint64_t least, uint64_t most,
                    uint64_t calls, uint64_t n_bytes, struct lines *lines)
{
    lines_add(lines, "%s,%llu,%llu,%llu,%llu,%llu,%llu\n", collective_name(collective),
              (unsigned long long)least, (unsigned long long)record->comm.n_ranks,
              (unsigned long long)record->comm.n_nodes, (unsigned long long)calls,
              (unsigned long long)most, (unsigned long long)n_bytes);
}

static uint64_t add_level(const struct record *record, const struct level *level,
                          struct lines *lines)
{
    uint64_t total = 0;
    for (size_t i = 0; i < (size_t)1 << level->bits && n_keys(level) > 0; i++) {
        uint64_t key = atomic_load_explicit(&level->slots[i].key, memory_order_relaxed);
        uint64_t calls = atomic_load_explicit(&level->slots[i].calls, memory_order_relaxed);
        if (calls > 0) {
            uint64_t n_bytes = key >> COLLECTIVE_BITS;
            int collective = (int)(key & ((1 << COLLECTIVE_BITS) - 1)) - 1;
            add_row(record, collective, n_bytes, n_bytes, calls, multiply(n_bytes, calls), lines);
            total += calls;
        }
    }
    return total;
}

static uint64_t add_powers(const struct record *record, struct lines *lines)
{
    uint64_t total = 0;
    for (int collective = 0; collective < TABLE_N_COLLECTIVES; collective++) {
        for (int i = 0; i < N_POWERS; i++) {
            const struct power *power = &record->powers[collective][i];
            uint64_t calls = atomic_load_explicit(&power->calls, memory_order_relaxed);
            if (calls > 0) {
                uint64_t least = i == 0 ? 0 : UINT64_C(1) << (i - 1);
                add_row(record, collective, least, i == 0 ? 0 : least - 1 + least, calls,
                        atomic_load_explicit(&power->n_bytes, memory_order_relaxed), lines);
                total += calls;
            }
        }
    }
    return total;
}

/* Everything counted so far, with a line in front that says whose it is and how it ended. */
static void describe(const struct record *record, const char *state, struct lines *lines)
{
    struct lines rows = {.at = NULL};
    uint64_t total = add_level(record, &record->levels[0], &rows) +
                     add_level(record, &record->levels[1], &rows) + add_powers(record, &rows);
    lines_add(lines,
              "#@ comm id=%s abi=%u host=%s pid=%ld context=%u since=%lld.%09ld nRanks=%llu "
              "nNodes=%llu calls=%llu keys=%u beyond=%llu unknown=%llu state=%s\n",
              record->id, record->comm.abi, record->host, (long)record->pid, record->comm.context,
              (long long)record->since.tv_sec, record->since.tv_nsec,
              (unsigned long long)record->comm.n_ranks, (unsigned long long)record->comm.n_nodes,
              (unsigned long long)total,
              (unsigned)(n_keys(&record->levels[0]) + n_keys(&record->levels[1])),
              (unsigned long long)atomic_load_explicit(&record->n_beyond, memory_order_relaxed),
              (unsigned long long)atomic_load_explicit(&record->n_unknown, memory_order_relaxed),
              state);
    if (rows.used > 0) {
        lines_add(lines, "%s", rows.at);
    }
    lines->failed = lines->failed || rows.failed;
    lines_free(&rows);
}

static void complain(struct record *record, const char *path)
{
    struct lines lines = {.at = NULL};
    if (!record->failed) { /* said once */
        lines_add(&lines, "rccltune: error: comm=%s: the record could not be written to %s\n",
                  record->id, path);
        (void)output_append(NULL, "", (struct text){lines.at, lines.used});
        lines_free(&lines);
    }
    record->failed = true;
}

/* Puts what was counted beside the file: what is left of a rank that is killed. */
static void write_snapshot(struct record *record)
{
    struct lines lines = {.at = NULL};
    lines_add(&lines, "%s", record_header);
    describe(record, "unfinished", &lines);
    if (!lines.failed && output_replace(record->snapshot, (struct text){lines.at, lines.used})) {
        record->has_snapshot = true;
    } else {
        complain(record, record->snapshot);
    }
    lines_free(&lines);
}

/* Appends what was counted to the file.  The snapshot goes last: better twice than not at all, and
 * a reader knows by the line in front that both are the same. */
static void write_whole(struct record *record, const char *state)
{
    struct lines lines = {.at = NULL};
    describe(record, state, &lines);
    if (!lines.failed &&
        output_append(record->path, record_header, (struct text){lines.at, lines.used})) {
        if (record->has_snapshot) {
            (void)unlink(record->snapshot);
        }
    } else {
        complain(record, record->path);
        write_snapshot(record);
    }
    lines_free(&lines);
    record->over = true;
}

/* Now and then, from a call: one thread writes, the others go on. */
static void look_at_clock(struct record *record)
{
    int64_t now = seconds();
    if (now < atomic_load_explicit(&record->next_snapshot, memory_order_relaxed) ||
        atomic_flag_test_and_set_explicit(&record->writing, memory_order_acquire)) {
        return;
    }
    if (now >= atomic_load_explicit(&record->next_snapshot, memory_order_relaxed) &&
        !record->over && !record->failed && record->pid == getpid()) {
        int64_t pause = now - record->started;
        pause = pause < FIRST_PAUSE ? FIRST_PAUSE : pause > LONGEST_PAUSE ? LONGEST_PAUSE : pause;
        write_snapshot(record);
        atomic_store_explicit(&record->next_snapshot, now + pause, memory_order_relaxed);
    }
    unlock(&record->writing);
}

static void count_by_power(struct record *record, int collective, uint64_t n_bytes)
{
    int power = n_bytes == 0 ? 0 : 64 - __builtin_clzll(n_bytes);
    struct power *at = &record->powers[collective][power];
    uint64_t before = atomic_load_explicit(&at->n_bytes, memory_order_relaxed);
    uint64_t after = 0;
    do {
        after = before > UINT64_MAX - n_bytes ? UINT64_MAX : before + n_bytes;
    } while (!atomic_compare_exchange_weak_explicit(&at->n_bytes, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    atomic_fetch_add_explicit(&at->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&record->n_beyond, 1, memory_order_relaxed);
}

/* Takes a free slot for a key; true when the slot has the key afterwards. */
static bool take(struct level *level, struct slot *slot, uint64_t key)
{
    uint64_t found = 0;
    if (atomic_fetch_add_explicit(&level->n_keys, 1, memory_order_relaxed) >= level->most) {
        atomic_fetch_sub_explicit(&level->n_keys, 1, memory_order_relaxed);
        return false;
    }
    if (atomic_compare_exchange_strong_explicit(&slot->key, &found, key, memory_order_relaxed,
                                                memory_order_relaxed)) {
        return true;
    }
    atomic_fetch_sub_explicit(&level->n_keys, 1, memory_order_relaxed); /* another thread's */
    return found == key;
}

static size_t slot_of(const struct level *level, uint64_t key)
{
    /* Golden ratio, 2^64: spreads the powers of two that message sizes mostly are. */
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - level->bits));
}

/* The slot of a key, which may be new; NULL where this level keeps no more. */
static struct slot *find(struct level *level, uint64_t key)
{
    for (size_t at = slot_of(level, key);; at = (at + 1) & (((size_t)1 << level->bits) - 1)) {
        struct slot *slot = &level->slots[at];
        uint64_t found = atomic_load_explicit(&slot->key, memory_order_relaxed);
        if (found == key || (found == 0 && take(level, slot, key))) {
            return slot;
        }
        if (found == 0 && n_keys(level) >= level->most) {
            return NULL;
        }
    }
}

static void add_one(struct record *record, struct slot *slot)
{
    uint64_t before = atomic_fetch_add_explicit(&slot->calls, 1, memory_order_relaxed);
    if (before % CALLS_PER_LOOK == 0) { /* also the first of each key */
        look_at_clock(record);
    }
}

/* A key that is not in its own place: new, pushed aside, or not to be kept. */
__attribute__((noinline)) static void count_elsewhere(struct record *record, int collective,
                                                      uint64_t n_bytes, uint64_t key)
{
    if ((unsigned)collective >= TABLE_N_COLLECTIVES) {
        atomic_fetch_add_explicit(&record->n_unknown, 1, memory_order_relaxed);
        return;
    }
    /* Sizes that lose bits in a key are no message's. */
    struct slot *slot = NULL;
    for (int i = 0; i < N_LEVELS && slot == NULL && key >> COLLECTIVE_BITS == n_bytes; i++) {
        slot = find(&record->levels[i], key);
    }
    if (slot != NULL) {
        add_one(record, slot);
    } else {
        count_by_power(record, collective, n_bytes);
    }
}

void record_count(struct record *record, int collective, uint64_t n_bytes)
{
    uint64_t key = n_bytes << COLLECTIVE_BITS | ((uint64_t)(unsigned)collective + 1);
    struct slot *slot = &record->levels[0].slots[slot_of(&record->levels[0], key)];
    if ((unsigned)collective < TABLE_N_COLLECTIVES && key >> COLLECTIVE_BITS == n_bytes &&
        atomic_load_explicit(&slot->key, memory_order_relaxed) == key) {
        add_one(record, slot);
    } else {
        count_elsewhere(record, collective, n_bytes, key);
    }
}

static bool name_files(struct record *record, const char *pattern, char *reason, size_t size)
{
    char beside[OUTPUT_PATH_SIZE];
    int length = snprintf(beside, sizeof beside, "%s.%%h-%%p-%%n.part", pattern);
    bool named =
        length > 0 && (size_t)length < sizeof beside &&
        output_name("%h", "", 0, record->host, sizeof record->host) &&
        output_name(pattern, record->id, record->comm.context, record->path, sizeof record->path) &&
        output_name(beside, record->id, record->comm.context, record->snapshot,
                    sizeof record->snapshot);
    /* The file is made now: a job must not run for hours and have recorded nothing. */
    if (!named || !output_append(record->path, record_header, text_of(""))) {
        (void)snprintf(reason, size, "RCCLTUNE_RECORD: '%.200s' cannot be written", pattern);
        return false;
    }
    return true;
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
    for (int i = 0; record != NULL && i < N_LEVELS; i++) {
        free(record->levels[i].slots);
    }
    free(record);
}

static bool make_levels(struct record *record)
{
    static const unsigned bits[N_LEVELS] = {NEAR_BITS, FAR_BITS};
    uint32_t left = RECORD_MAX_KEYS;
    for (int i = 0; i < N_LEVELS; i++) {
        struct level *level = &record->levels[i];
        uint32_t half = UINT32_C(1) << (bits[i] - 1);
        level->bits = bits[i];
        level->most = half < left ? half : left;
        left -= level->most;
        level->slots = calloc((size_t)1 << bits[i], sizeof *level->slots);
        if (level->slots == NULL) {
            return false;
        }
    }
    return true;
}

bool record_start(const struct settings *settings, const struct trace_comm *comm,
                  struct record **record, char *reason, size_t size)
{
    *record = NULL;
    if (settings->record == NULL) {
        return true;
    }
    struct record *made = calloc(1, sizeof *made);
    if (made == NULL || !make_levels(made)) {
        (void)snprintf(reason, size, "out of memory");
        release(made);
        return false;
    }
    made->comm = *comm;
    (void)snprintf(made->id, sizeof made->id, "%s", comm->id);
    made->comm.id = made->id;
    made->pid = getpid();
    made->started = seconds();
    (void)clock_gettime(CLOCK_REALTIME, &made->since);
    atomic_flag_clear(&made->writing);
    if (!name_files(made, settings->record, reason, size)) {
        release(made);
        return false;
    }
    enlist(made);
    *record = made;
    return true;
}

void record_end(struct record *record)
{
    if (record == NULL) {
        return;
    }
    strike(record);
    lock(&record->writing);
    if (!record->over && record->pid == getpid()) {
        write_whole(record, "whole");
    }
    release(record);
}

/* Jobs that never destroy their communicators are the rule.  A record whose lock stays taken is
 * left to its snapshot: the process may end in the midst of one. */
__attribute__((destructor)) static void write_those_left(void)
{
    lock(&listing);
    for (struct record *record = first; record != NULL; record = record->next) {
        bool mine = false;
        for (int i = 0; i < PATIENCE && !mine; i++) {
            mine = !atomic_flag_test_and_set_explicit(&record->writing, memory_order_acquire);
        }
        if (mine && !record->over && record->pid == getpid()) {
            write_whole(record, "exit");
        }
        if (mine) {
            unlock(&record->writing);
        }
    }
    unlock(&listing);
}
