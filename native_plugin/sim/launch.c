/* The launcher's environment. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    char *end;
    if (value == NULL || *value == '\0')
        return otherwise;
    long n = strtol(value, &end, 10);
    return *end == '\0' && n >= 0 && n <= MAX_RANKS ? (int)n : otherwise;
}

static const char *word(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* RCCLTUNE_SIM_LINKED=openmpi makes the program one that was linked to that MPI: another launcher's
 * environment means nothing to it and every process runs alone, which is what a real mismatch does
 *. */
static bool linked_to(const char *name)
{
    const char *linked = getenv("RCCLTUNE_SIM_LINKED");
    return linked == NULL || *linked == '\0' || strcmp(linked, name) == 0;
}

void launch_find(struct launch *launch, int default_procs)
{
    static const struct {
        const char *name, *rank, *size, *local_size;
    } launchers[] = {
        {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
        {"slurm", "SLURM_PROCID", "SLURM_NTASKS", ""},
    };
    int procs = number("RCCLTUNE_SIM_RANKS", 0);
    bool foreign = false;
    memset(launch, 0, sizeof *launch);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && procs == 0; i++) {
        int rank = number(launchers[i].rank, -1), size = number(launchers[i].size, 0);
        /* A shell inside an allocation has SLURM_NTASKS, but only srun's children have a step. */
        if (rank < 0 || size < 1 || rank >= size ||
            (strcmp(launchers[i].name, "slurm") == 0 && *word("SLURM_STEP_ID") == '\0'))
            continue;
        if (!linked_to(launchers[i].name)) {
            foreign = true;
            continue;
        }
        /* Hosts that are namespaces of one kernel can share memory, where somebody says so. */
        bool spread =
            *launchers[i].local_size != '\0' && number(launchers[i].local_size, size) != size;
        if (spread && *word("RCCLTUNE_SIM_SHM_DIR") == '\0')
            sim_fail("a simulated node runs on one host; its node file says how many it plays");
        launch->launched = true;
        launch->proc = rank;
        launch->n_procs = size;
        snprintf(launch->key, sizeof launch->key, "%.60s/%.60s/%.10s.%.10s/%d",
                 word("RCCLTUNE_RUN_ID"), word("PMIX_NAMESPACE"), word("SLURM_JOB_ID"),
                 word("SLURM_STEP_ID"),
                 /* Hydra names no job; all ranks of a host are children of one proxy. */
                 *word("PMIX_NAMESPACE") == '\0' && *word("SLURM_STEP_ID") == '\0' && !spread
                     ? (int)getppid()
                     : 0);
        return;
    }
    launch->n_procs = procs > 0 ? procs : foreign ? 1 : default_procs;
}
