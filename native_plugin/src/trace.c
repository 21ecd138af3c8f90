#include "trace.h"

#include "names.h"

#include <stdlib.h>
#include <string.h>

const char trace_header[] = "#@ format 1\n"
                            "comm,abi,n_nodes,n_ranks,step,setting,collective,nbytes,calls,changed,"
                            "selectable,host_times_us,"
                            "host_choice,answer,line\n";

void trace_read_table(struct trace_call *call, const float *cells, int n_algorithms,
                      int n_protocols)
{
    call->n_protocols = n_protocols;
    call->host_choice = -1;
    if (cells == NULL || n_algorithms <= 0 || n_protocols <= 0) {
        return;
    }
    int64_t n_cells = (int64_t)n_algorithms * n_protocols;
    for (int16_t i = 0; i < n_cells && i < TRACE_MAX_CELLS; i++) {
        if (cells[i] >= 0.0F) {
            call->selectable |= UINT64_C(1) << i;
            call->times[i] = cells[i];
            if (call->host_choice < 0 || cells[i] < cells[call->host_choice]) {
                call->host_choice = i;
            }
        }
    }
}

static uint32_t slot_of(const struct trace *trace, const struct trace_call *call)
{
    /* Multiplication spreads the powers of two that message sizes mostly are (golden ratio, 2^64).
     */
    uint64_t hash =
        (call->n_bytes * 8 + (uint64_t)call->collective + 1) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(hash >> 32) & (trace->n_slots - 1);
    while (trace->slots[slot] != 0) {
        const struct trace_call *other = &trace->records[trace->slots[slot] - 1].first;
        if (other->n_bytes == call->n_bytes && other->collective == call->collective) {
            break;
        }
        slot = (slot + 1) & (trace->n_slots - 1);
    }
    return slot;
}

/* Keeps the slots at most half full and the records with room for one more. */
static bool make_room(struct trace *trace)
{
    if (trace->n_records < trace->records_room) {
        return true;
    }
    uint32_t room = trace->records_room == 0 ? 64 : trace->records_room * 2;
    if (room > TRACE_MAX_RECORDS) {
        return false;
    }
    uint32_t *slots = calloc((size_t)room * 2, sizeof *slots);
    struct trace_record *records =
        slots == NULL ? NULL : realloc(trace->records, room * sizeof *records);
    if (records == NULL) {
        free(slots);
        return false;
    }
    free(trace->slots);
    trace->records = records;
    trace->records_room = room;
    trace->slots = slots;
    trace->n_slots = room * 2;
    for (uint32_t i = 0; i < trace->n_records; i++) {
        trace->slots[slot_of(trace, &records[i].first)] = i + 1;
    }
    return true;
}

static bool same_answer(const struct trace_call *a, const struct trace_call *b)
{
    return a->has_answer == b->has_answer &&
           (!a->has_answer ||
            (a->answer.algorithm == b->answer.algorithm &&
             a->answer.protocol == b->answer.protocol && a->answer.channels == b->answer.channels));
}

const struct trace_record *trace_count(struct trace *trace, const struct trace_call *call)
{
    uint32_t known = trace->n_slots == 0 ? 0 : trace->slots[slot_of(trace, call)];
    if (known != 0) {
        struct trace_record *record = &trace->records[known - 1];
        bool same =
            record->first.selectable == call->selectable && same_answer(&record->first, call);
        record->calls++;
        record->changed += same ? 0 : 1;
        return NULL;
    }
    if (!make_room(trace)) {
        trace->dropped++;
        return NULL;
    }
    struct trace_record *record = &trace->records[trace->n_records++];
    *record = (struct trace_record){.first = *call, .calls = 1};
    trace->slots[slot_of(trace, call)] = trace->n_records;
    return record;
}

void trace_add_cell(struct lines *lines, int cell, int n_protocols)
{
    if (cell < 0 || n_protocols <= 0) {
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

void trace_add_setting(struct lines *lines, const struct candidate *setting)
{
    lines_add(lines, "%s/%s", algorithm_name(setting->algorithm), protocol_name(setting->protocol));
    if (setting->channels >= 1) {
        lines_add(lines, "/%d", (int)setting->channels);
    }
}

void trace_add_answer(struct lines *lines, const struct trace_call *call)
{
    if (!call->has_answer) {
        lines_add(lines, "none");
        return;
    }
    trace_add_setting(lines, &call->answer);
}

/* Microseconds with three decimals, without printf's %f, whose decimal point is the locale's. */
static void add_time(struct lines *lines, float time_us)
{
    double nanoseconds = (double)time_us * 1000.0 + 0.5;
    if (nanoseconds >= 1e18) { /* infinity included */
        lines_add(lines, "inf");
        return;
    }
    uint64_t whole = (uint64_t)nanoseconds;
    lines_add(lines, "%llu.%03u", (unsigned long long)(whole / 1000), (unsigned)(whole % 1000));
}

static void add_record(const struct trace_record *record, struct lines *lines)
{
    const struct trace_call *call = &record->first;
    const char *separator = "";
    lines_add(lines, "%s,%llu,%llu,%llu,", collective_name(call->collective),
              (unsigned long long)call->n_bytes, (unsigned long long)record->calls,
              (unsigned long long)record->changed);
    for (int i = 0; i < TRACE_MAX_CELLS; i++) {
        if ((call->selectable >> i & 1) != 0) {
            lines_add(lines, "%s", separator);
            trace_add_cell(lines, i, call->n_protocols);
            separator = " ";
        }
    }
    separator = "";
    lines_add(lines, ",");
    for (int i = 0; i < TRACE_MAX_CELLS; i++) {
        if (call->host_choice >= 0 && (call->selectable >> i & 1) != 0) {
            lines_add(lines, "%s", separator);
            add_time(lines, call->times[i]);
            separator = " ";
        }
    }
    lines_add(lines, ",");
    trace_add_cell(lines, call->host_choice, call->n_protocols);
    lines_add(lines, ",");
    trace_add_answer(lines, call);
    lines_add(lines, ",%u\n", call->has_answer ? (unsigned)call->answer.line : 0);
}

void trace_write(const struct trace *trace, const struct trace_comm *comm, unsigned step,
                 const char *setting, struct lines *lines)
{
    for (uint32_t i = 0; i < trace->n_records; i++) {
        lines_add(lines, "%s,%u,%llu,%llu,%u,%s,", comm->id, comm->abi,
                  (unsigned long long)comm->n_nodes, (unsigned long long)comm->n_ranks, step,
                  setting);
        add_record(&trace->records[i], lines);
    }
    if (trace->dropped > 0) {
        lines_add(lines, "#@ dropped comm=%s step=%u calls=%llu\n", comm->id, step,
                  (unsigned long long)trace->dropped);
    }
}

void trace_clear(struct trace *trace)
{
    if (trace->n_slots > 0) {
        memset(trace->slots, 0, trace->n_slots * sizeof *trace->slots);
    }
    trace->n_records = 0;
    trace->dropped = 0;
}

void trace_free(struct trace *trace)
{
    free(trace->records);
    free(trace->slots);
    *trace = (struct trace){.records = NULL};
}
