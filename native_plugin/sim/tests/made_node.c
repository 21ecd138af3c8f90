#include "made_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const collectives[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                          "reduce",     "alltoall",   "sendrecv"};
/* Microseconds at 1 KiB, 1000 times as many at 1 MiB: a straight line. */
static const struct {
    const char *name;
    int us;
} settings[] = {{"ring/ll", 10}, {"ring/ll128", 12}, {"ring/simple", 14},
                {"tree/ll", 16}, {"tree/ll128", 18}, {"tree/simple", 20},
                {"dda", 22},     {"p2p", 24},        {"direct", 26}};
enum { N_SETTINGS = sizeof settings / sizeof *settings, N_COLLECTIVES = 7 };

static int n_ranks = 4, n_nodes = 1;
static char arch[16] = "gfx942", product[64] = "Made%20up", noise[256] = "noise 0 0 1 0 0 1\n",
            parts[2][1024];

const char *made_folder(void)
{
    static char folder[64];
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/tmp/sim-test-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
    }
    return folder;
}

static void write_node(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/made.node", made_folder());
    FILE *file = fopen(path, "w");
    if (file == NULL)
        abort();
    fprintf(file,
            "rccltune-node 3\nname made-node\nhardware %s %s spx-nps1 made-host 304 "
            "1024\nscale %d %d 1 0\nrelease 2.28.3 rtnew rccl\nlibrary 5 1 1 1 0 0 32 56 0 -1\n",
            product, arch, n_ranks, n_nodes);
    fprintf(file, "ring 16 3 0 0\ntree 16 3 0 0\nstart 0 0 0\n%s%s", noise, parts[0]);
    for (int c = 0; c < N_COLLECTIVES; c++) {
        for (int s = 0; s < N_SETTINGS; s++)
            fprintf(file,
                    "curve %s %s - - - - - - 0 9223372036854775807 0 0 0 x 1024:%d 1048576:%d\n",
                    collectives[c], settings[s].name, settings[s].us, settings[s].us * 1000);
    }
    fprintf(file, "%send\n", parts[1]);
    fclose(file);
    setenv("RCCLTUNE_SIM_NODE", path, 1);
}

void made_node(const char *before, const char *behind)
{
    snprintf(parts[0], sizeof parts[0], "%s", before);
    snprintf(parts[1], sizeof parts[1], "%s", behind);
    snprintf(noise, sizeof noise, "noise 0 0 1 0 0 1\n");
    write_node();
}

void made_scale(int ranks, int nodes)
{
    n_ranks = ranks;
    n_nodes = nodes;
}

void made_arch(const char *name)
{
    snprintf(arch, sizeof arch, "%s", name);
}

void made_product(const char *name)
{
    size_t n = 0;
    for (; *name != '\0' && n + 4 < sizeof product; name++)
        n += (size_t)snprintf(product + n, sizeof product - n, *name == ' ' ? "%%20" : "%c", *name);
}

void made_noise(const char *records)
{
    snprintf(noise, sizeof noise, "%s", records);
    write_node();
}

double made_us(const char *setting, size_t bytes)
{
    for (int s = 0; s < N_SETTINGS; s++) {
        if (strcmp(settings[s].name, setting) == 0) {
            double octaves = 0;
            for (size_t at = 1024; at < bytes; at *= 2)
                octaves++;
            double power = 1, step = 1.9952623149688795; /* the tenth root of 1000 */
            for (int i = 0; i < (int)octaves; i++)
                power *= step;
            return settings[s].us * power;
        }
    }
    return -1;
}
