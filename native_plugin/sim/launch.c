/*
 * The launcher's environment, and where the processes of one launch meet.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *name, int otherwise)
{
    int64_t n = env_number(name, otherwise);
    return n > MAX_RANKS ? MAX_RANKS + 1 : (int)n;
}

static const char *word(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* RCCLTUNE_SIM_LINKED=openmpi makes the program one that was linked to that MPI: another launcher's
 * environment means nothing to it and every process runs alone, which is what a real mismatch does.
 */
static bool linked_to(const char *name)
{
    const char *linked = env_text("RCCLTUNE_SIM_LINKED");
    return linked == NULL || strcmp(linked, name) == 0;
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
        bool spread = number(launchers[i].local_size, size) != size;
        if (spread && env_text("RCCLTUNE_SIM_SHM_DIR") == NULL)
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
    launch->n_procs = procs > 0 ? procs : foreign || default_procs < 1 ? 1 : default_procs;
}

static struct meeting here;

static const char *folder(void)
{
    const char *chosen = meeting_folder();
    return chosen != NULL ? chosen : access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

void launch_join(const struct launch *launch)
{
    meeting_open(&here, folder(), launch->key, launch->launched ? (uint32_t)launch->n_procs : 1,
                 sizeof(struct slot), MAX_RANKS);
}

struct slot *launch_slot(int world_rank)
{
    return meeting_slot(&here, world_rank);
}

bool meet(double timeout_s)
{
    return meeting_wait(&here, timeout_s);
}

void launch_barrier(void)
{
    meeting_turn(&here);
}
