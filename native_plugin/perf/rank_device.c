#include "rank_device.h"

#include <ctype.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_frequency.h"
#include "host.h"
#include "library.h"
#include "rendezvous.h"
#include "rows.h"

static int number_of(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value != NULL && isdigit((unsigned char)*value) ? atoi(value) : otherwise;
}

struct ranks ranks_of_launcher(void)
{
    static const struct {
        const char *rank, *n_ranks, *local_rank, *only_with;
    } launchers[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", NULL},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL},
        /* A shell inside an allocation has a rank, only srun's children have a step. */
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", NULL},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int rank = number_of(launchers[i].rank, -1), n = number_of(launchers[i].n_ranks, 0);
        const char *only = launchers[i].only_with;
        if (rank >= 0 && rank < n && (only == NULL || getenv(only) != NULL))
            return (struct ranks){rank, n, number_of(launchers[i].local_rank, rank)};
    }
    fail(EXIT_USAGE,
         "which rank this is, nothing says: start it with --start N, by mpirun, srun or "
         "torchrun, or say --rank, --ranks and --local-rank");
}

/* The device with this number of "0,8,16"; -1 where the list is shorter. */
static int listed(const char *list, int number)
{
    for (; number > 0 && list != NULL; number--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return list != NULL && isdigit((unsigned char)*list) ? atoi(list) : -1;
}

/* One line of a file of sysfs. */
static bool read_line(const char *path, char *text, int size)
{
    FILE *file = fopen(path, "r");
    bool has = file != NULL && fgets(text, size, file) != NULL;
    if (file != NULL)
        fclose(file);
    return has;
}

/* "0-15,32-47" */
static void add_processors(const char *list, cpu_set_t *set)
{
    while (isdigit((unsigned char)*list)) {
        char *end;
        long low = strtol(list, &end, 10), high = low;
        if (*end == '-')
            high = strtol(end + 1, &end, 10);
        for (long i = low; i <= high && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, set);
        list = *end == ',' ? end + 1 : end;
    }
}

__attribute__((format(printf, 1, 2))) static void unbound(const char *why, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    rows_remark("numa unbound: %s", text);
    tell_fact("NUMA", "unbound");
}

static void bind_to(const char *bus)
{
    char path[128], text[4096];
    cpu_set_t allowed, near, both;
    CPU_ZERO(&near);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    int node = read_line(path, text, sizeof text) ? atoi(text) : -1;
    if (node < 0) {
        unbound("%s does not say a node", path);
        return;
    }
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    if (!read_line(path, text, sizeof text)) {
        unbound("there is no %s", path);
        return;
    }
    add_processors(text, &near);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        unbound("the processors of this process are not known");
        return;
    }
    CPU_AND(&both, &near, &allowed);
    snprintf(text, sizeof text, "%d", node);
    if (CPU_COUNT(&both) == 0 || sched_setaffinity(0, sizeof both, &both) != 0) {
        unbound("none of node %d's processors may be used here", node);
    } else {
        rows_remark("numa %d", node);
        tell_fact("NUMA", text);
    }
}

struct place {
    char host[160], bus[32];
};

/* Whether two ranks have one device, which no job does; two slices of one card look the same here.
 * Ends the program where they may not. */
static bool is_shared(const struct ranks *ranks, const struct place *mine, bool may_share)
{
    struct place *all = calloc((size_t)ranks->n_ranks, sizeof *all);
    char words[256] = "";
    if (all == NULL)
        fail(EXIT_DEVICES, "no memory for %d ranks", ranks->n_ranks);
    rendezvous_gather(mine, all, sizeof *mine);
    for (int i = 0; i < ranks->n_ranks && ranks->rank == 0; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(all[i].host, all[j].host) == 0 && strcmp(all[i].bus, all[j].bus) == 0)
                snprintf(words, sizeof words,
                         "ranks %d and %d both have the device %s of %.60s: each rank needs a "
                         "whole one of its own (slices by MIG are not measured)",
                         j, i, all[i].bus, all[i].host);
        }
    }
    free(all);
    rendezvous_broadcast(words, sizeof words);
    if (*words != '\0' && !may_share)
        fail(EXIT_DEVICES, "%s", words);
    return *words != '\0';
}

bool take_device(const struct ranks *ranks, const char *devices, bool binds, bool may_share)
{
    struct place mine = {"", ""};
    const char *host_id = getenv("NCCL_HOSTID"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    char host[96] = "unknown";
    int n = 0;
    (void)gethostname(host, sizeof host - 1);
    if (visible != NULL && strstr(visible, "MIG") != NULL)
        fail(EXIT_DEVICES,
             "CUDA_VISIBLE_DEVICES names slices of a card (%s), which are not "
             "measured: name whole cards",
             visible);
    int result = runtime.count_devices(&n);
    if (result != 0 || n == 0)
        fail(EXIT_DEVICES, "no GPU is visible here (%s)",
             result != 0 ? runtime.error_string(result) : "the runtime counts 0");
    int device = devices != NULL ? listed(devices, ranks->local_rank)
                 : may_share     ? ranks->local_rank % n
                                 : ranks->local_rank;
    if (n == 1 && devices == NULL)
        device = 0; /* the launcher shows each rank its own */
    if (device < 0 || device >= n)
        fail(EXIT_DEVICES, "rank %d of this host has no GPU: %d are visible%s%s", ranks->local_rank,
             n, devices != NULL ? ", and the list is " : "", devices != NULL ? devices : "");
    device_use(device);
    check_runtime(runtime.bus_id(mine.bus, sizeof mine.bus, device), "DeviceGetPCIBusId");
    for (char *c = mine.bus; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    snprintf(mine.host, sizeof mine.host, "%s%s%.60s", host, host_id != NULL ? "/" : "",
             host_id != NULL ? host_id : "");
    rows_remark("rank %d of %d", ranks->rank, ranks->n_ranks);
    if (binds && runtime.clock == NULL)
        bind_to(mine.bus);
    tell_device(device, mine.bus);
    if (runtime.clock == NULL)
        device_frequency_open(mine.bus);
    return is_shared(ranks, &mine, may_share);
}
