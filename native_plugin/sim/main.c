/*
 * A benchmark of rccl-tests on a node that does not exist.  The name it is started under says which
 * collective it measures; everything else that is its own comes from the environment, because the
 * command line is rccl-tests'.  docs/node-file.md lists the variables.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "beside.h"
#include "real.h"

/* Open MPI's launcher can lose track of programs that live for less. */
static const double shortest_life_s = 0.5;

/* The simulated clock: seconds since the sweep began, for bursts and drift.  A launch is told where
 * it begins, or a file carries it from launch to launch.  Only a launch that ends well moves it on,
 * so that one which is repeated after a kill gives the samples it would have given. */
static double clock_start(void)
{
    const char *epoch = getenv("RCCLTUNE_SIM_EPOCH"), *path = getenv("RCCLTUNE_SIM_CLOCK");
    double seconds = 0;
    if (epoch != NULL && *epoch != '\0')
        return strtod(epoch, NULL);
    FILE *file = path != NULL && *path != '\0' ? fopen(path, "r") : NULL;
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lf", &seconds) != 1 || !(seconds >= 0))
        sim_fail("%s holds no clock", path);
    fclose(file);
    return seconds;
}

static void clock_store(double seconds)
{
    const char *path = getenv("RCCLTUNE_SIM_CLOCK");
    char next[4096];
    if (path == NULL || *path == '\0')
        return;
    snprintf(next, sizeof next, "%s.%d", path, (int)getpid());
    FILE *file = fopen(next, "w");
    if (file == NULL || fprintf(file, "%.9f\n", seconds) < 0 || fclose(file) != 0 ||
        rename(next, path) != 0)
        sim_fail("cannot write the clock %s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
    real_restart(argv);
    static struct bench bench; /* large, and zero to begin with */
    double began = clock_now();
    bench_setup(&bench, argc, argv);
    meet_start(&bench.launch, bench.n_ranks);
    bool first = bench.first_rank == 0;
    bench.clock = meet_agree(first ? clock_start() : 0);
    bench_print_start(&bench);
    /* Every rank has looked by now who runs beside it. */
    if (first)
        tell_running(&bench.node, getenv("RCCLTUNE_SIM_NODE"), bench.collective);
    bench_init_library(&bench);
    bench_run(&bench);
    int status = bench_finish(&bench);
    if (first)
        clock_store(bench.clock + bench.node.startup_s);
    fflush(stdout);
    meet(bench.options.timeout);
    if (bench.launch.launched)
        sleep_for(shortest_life_s - (clock_now() - began));
    meet_stop();
    node_free(&bench.node);
    return status;
}
