#include "npkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of src/include/npkit/npkit_event.h: the ring or tree of a whole call, from its entry on; the exit
 * is the next number. */
static const uint8_t ring_entry[N_TUNABLE] = {
    [COLL_ALL_REDUCE] = 0x01,
    [COLL_ALL_GATHER] = 0x50,
    [COLL_BROADCAST] = 0x68,
    [COLL_REDUCE_SCATTER] = 0x70,
};
static const uint8_t tree_entry = 0x03;
/* Both clocks at the start of a call, by which trace generators put GPUs on one time axis. */
static const uint8_t sync_gpu = 0x33, sync_cpu = 0x34;

/* 100 MHz, the fixed clock of these GPUs, and nanoseconds of the processor. */
static const double gpu_ticks = 1e8, cpu_ticks = 1e9;
static const int clock_khz = 100000;

enum { EVENT_BYTES = 16, MAX_EVENTS = 1 << 15 };

static struct {
    bool on;
    unsigned char events[MAX_EVENTS][EVENT_BYTES];
    int n;
} npkit;

void npkit_start(int n_local)
{
    const char *patches = getenv("RCCLTUNE_SIM_PATCHES");
    npkit.on = patches != NULL && strstr(patches, "npkit") != NULL;
    if (npkit.on && n_local > 1)
        sim_fail("NPKit does not support more than one device in a process");
}

/* Type, size, nothing, time: 8, 32, 24 and 64 bits, the low byte first. */
static void event(uint8_t type, size_t n_bytes, double at_s, double ticks_per_second)
{
    if (npkit.n == MAX_EVENTS)
        return;
    unsigned char *bytes = npkit.events[npkit.n++];
    uint64_t ticks = (uint64_t)(at_s * ticks_per_second);
    bytes[0] = type;
    for (int i = 0; i < 4; i++)
        bytes[1 + i] = (unsigned char)((uint64_t)n_bytes >> (8 * i));
    for (int i = 0; i < 8; i++)
        bytes[8 + i] = (unsigned char)(ticks >> (8 * i));
}

void npkit_calls(int collective, const struct decision *what, size_t n_bytes, int n_calls,
                 double began_s, double each_us)
{
    if (!npkit.on || collective >= N_TUNABLE || what->path != PATH_TUNED)
        return;
    uint8_t type = what->algorithm == ALGO_RING ? ring_entry[collective] : 0;
    if (what->algorithm == ALGO_TREE)
        type = tree_entry;
    for (int i = 0; type != 0 && i < n_calls; i++) {
        double from = began_s + 1e-6 * each_us * i, to = began_s + 1e-6 * each_us * (i + 1);
        event(sync_cpu, 0, from, cpu_ticks);
        event(sync_gpu, 0, from, gpu_ticks);
        event(type, n_bytes, from, gpu_ticks);
        event((uint8_t)(type + 1), n_bytes, to, gpu_ticks);
    }
}

static void write_file(const char *name, int rank, const char *more, const void *data, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%d%s", getenv("NPKIT_DUMP_DIR"), name, rank, more);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return; /* RCCL does not look either */
    fwrite(data, 1, n, file);
    fclose(file);
}

static void write_text(const char *name, int rank, const char *text)
{
    write_file(name, rank, "", text, strlen(text));
}

void npkit_dump(int rank, const char *node)
{
    char rate[16], words[120];
    if (!npkit.on)
        return;
    if (getenv("NPKIT_DUMP_DIR") == NULL) {
        fprintf(stderr, "NCCL WARN NPKIT_DUMP_DIR is empty\n");
        return;
    }
    snprintf(rate, sizeof rate, "%d", clock_khz);
    snprintf(words, sizeof words, "node %s: no hardware was measured\n", node);
    write_text("SIMULATED_rank_", rank, words);
    write_file("cpu_events_rank_", rank, "_channel_0", "", 0);
    write_text("cpu_clock_period_num_rank_", rank, "1");
    write_text("cpu_clock_period_den_rank_", rank, "1000000000");
    write_file("gpu_events_rank_", rank, "_buf_0", npkit.events, (size_t)npkit.n * EVENT_BYTES);
    write_text("gpu_clock_rate_rank_", rank, rate);
}
