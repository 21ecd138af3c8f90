#include "npkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { EVENT_BYTES = 16 };

/* Type, 32 bits of size, 24 of nothing, 64 of time: both clocks, then a ring's entry and exit. */
static const unsigned char events[4][EVENT_BYTES] = {
    {0x34}, {0x33}, {0x01, 0, 0, 16}, {0x02, 0, 0, 16, 0, 0, 0, 0, 0x10, 0x27}};

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

void npkit_dump(int rank, int collective, const char *node)
{
    const char *patches = getenv("RCCLTUNE_SIM_PATCHES");
    if (patches == NULL || strstr(patches, "npkit") == NULL || getenv("NPKIT_DUMP_DIR") == NULL)
        return;
    bool has_events = collective == COLL_ALL_REDUCE; /* others have others, reduce has none */
    write_file("SIMULATED_rank_", rank, "", node, strlen(node));
    write_file("cpu_events_rank_", rank, "_channel_0", "", 0);
    write_file("cpu_clock_period_num_rank_", rank, "", "1", 1);
    write_file("cpu_clock_period_den_rank_", rank, "", "1000000000", 10);
    write_file("gpu_events_rank_", rank, "_buf_0", events, has_events ? sizeof events : 0);
    write_file("gpu_clock_rate_rank_", rank, "", "100000", 6);
}
