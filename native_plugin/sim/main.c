/*
 * A benchmark of rccl-tests on a node that does not exist.  The name it is started under says which
 * collective it measures; everything else that is its own comes from the environment, because the
 * command line is rccl-tests':
 *   RCCLTUNE_SIM_NODE                  the compiled node file (rccltune/simulate/compiled.py)
 *   RCCLTUNE_SIM_SEED, _LAUNCH         what the noise depends on
 *   RCCLTUNE_SIM_RANKS                 this one process plays that many
 *   RCCLTUNE_SIM_RELEASE, _STARTUP_S, _BENCHMARK   instead of the file's
 *   RCCLTUNE_SIM_EPOCH, _CLOCK         simulated seconds at the start; a file that carries them on
 *   RCCLTUNE_SIM_LINKED                openmpi, mpich or slurm: other launchers' ranks run alone
 *   RCCLTUNE_SIM_TRUTH                 a file that gets what ran, and the node file's time of it
 *   RCCLTUNE_SIM_LIBRCCL, _RAN         a real RCCL that decides; a file that gets what it ran
 *   RCCLTUNE_SIM_PATCHES               force-tree-simple
 *   RCCLTUNE_SIM_SHM_DIR               where ranks meet
 *   RCCLTUNE_SIM_LONGEST_LIFE_S        after which a hanging process ends itself (1800)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "real.h"

/* Open MPI's launcher can lose track of programs that live for less. */
static const double shortest_life_s = 0.5;

/* The simulated clock: seconds since the sweep began, for bursts and drift.  A launch is told where
 * it begins, or a file carries it from launch to launch.  Only a launch that ends well moves it on,
 * so that one which is repeated after a kill gives the samples it would have given. */
static double clock_start(void)
{
    static const char epoch[] = "RCCLTUNE_SIM_EPOCH";
    const char *path = env_text(epoch) == NULL ? env_text("RCCLTUNE_SIM_CLOCK") : NULL;
    double seconds = 0;
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL)
        return env_double(epoch, 0);
    if (fscanf(file, "%lf", &seconds) != 1 || !(seconds >= 0))
        sim_fail("%s holds no clock", path);
    fclose(file);
    return seconds;
}

static void clock_store(double seconds)
{
    const char *path = env_text("RCCLTUNE_SIM_CLOCK");
    char next[4096];
    if (path == NULL)
        return;
    snprintf(next, sizeof next, "%s.%d", path, (int)getpid());
    FILE *file = fopen(next, "w");
    if (file == NULL || fprintf(file, "%.9f\n", seconds) < 0 || fclose(file) != 0 ||
        rename(next, path) != 0)
        sim_fail("cannot write the clock %s: %s", path, strerror(errno));
}

static struct bench bench; /* large, and zero to begin with */

/* The simulated library is a part of this program, which has its soname too (CMakeLists.txt), so
 * that a plugin finds the library that calls it. */
__attribute__((visibility("default"))) int ncclGetVersion(int *code);
int ncclGetVersion(int *code)
{
    *code = bench.library.version;
    return NCCL_SUCCESS;
}

int main(int argc, char **argv)
{
    real_restart(argv);
    double began = clock_now();
    bench_setup(&bench, argc, argv);
    launch_join(&bench.launch);
    bool first = bench.first_rank == 0;
    bench.clock = clock_start();
    bench_print_start(&bench);
    bench_init_library(&bench);
    bench_run(&bench);
    int status = bench_finish(&bench);
    if (first)
        clock_store(bench.clock + bench.node.startup_s);
    fflush(stdout);
    meet(bench.options.timeout);
    if (bench.launch.launched)
        sleep_for(shortest_life_s - (clock_now() - began));
    return status;
}
