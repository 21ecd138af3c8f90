/* The node file below the runtime: devices, hosts, variants, and what is said of it all. */
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/rccltune_simulated.h"

static struct {
    pthread_once_t once;
    bool told, loaded; /* devices said by whoever loaded this; by the node file */
    struct node node;
    bool *holds[N_CAPTURED], settled; /* which variants do */
    double common_us;
} machine = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    const char *path = env_text("RCCLTUNE_SIM_NODE");
    if (machine.told || path == NULL)
        return;
    struct node *node = &machine.node;
    node_load(path, node);
    struct hip_node devices = {.n_devices = node->ranks / node->nodes,
                               .per_oam = node->devices_per_oam,
                               .compute_units = node->compute_units,
                               .memory_mib = node->memory_mib,
                               .has_nics = node->nodes > 1};
    if (devices.n_devices > HIP_MAX_DEVICES || devices.n_devices > HIP_MAX_OAMS * devices.per_oam)
        sim_fail("the stand-in HIP runtime has at most %d devices on %d OAMs", HIP_MAX_DEVICES,
                 HIP_MAX_OAMS);
    snprintf(devices.product, sizeof devices.product, "%s", node->product);
    snprintf(devices.arch, sizeof devices.arch, "%s", node->arch);
    machine.loaded = true;
    hip_set_devices(&devices, true);
}

struct node *hip_machine(void)
{
    pthread_once(&machine.once, load);
    return machine.loaded ? &machine.node : NULL;
}

const struct node *rccltune_machine_node(void)
{
    return hip_machine();
}

void rccltune_hip_devices(const struct hip_node *node)
{
    machine.told = true;
    machine.loaded = false;
    hip_set_devices(node, false);
}

/* Once for each manner; a captured call is replayed more often than once. */
static void settle(struct node *node)
{
    struct manner manner = {.threads = 1, .gpus = 1};
    for (int captured = 0; captured < N_CAPTURED; captured++) {
        manner.graph = captured == NOT_CAPTURED ? 0 : 2;
        manner.registered = captured == CAPTURED_REGISTERED;
        settle_variants(node, &manner);
        bool *holds = calloc((size_t)node->n_variants + 1, sizeof *holds);
        if (holds == NULL)
            sim_fail("no memory for the node's variants");
        for (int i = 0; i < node->n_variants; i++)
            holds[i] = node->variants[i].holds;
        machine.holds[captured] = holds;
    }
    machine.settled = true;
}

void rccltune_machine_manner(enum captured captured)
{
    struct node *node = hip_machine();
    if (!machine.settled)
        settle(node);
    for (int i = 0; i < node->n_variants; i++)
        node->variants[i].holds = machine.holds[captured][i];
}

int rccltune_machine_ranks_a_host(int n_ranks)
{
    const struct node *node = hip_machine();
    return n_ranks == node->ranks ? n_ranks / node->nodes : n_ranks;
}

const char *rccltune_machine_host(int rank, int n_ranks)
{
    static char name[64];
    const struct node *node = hip_machine();
    int per_host = rccltune_machine_ranks_a_host(n_ranks);
    if (per_host == n_ranks)
        snprintf(name, sizeof name, "%s", node->host);
    else
        snprintf(name, sizeof name, "%s%d", node->host, rank / per_host);
    return name;
}

double hip_simulated_seconds(void)
{
    static double epoch = -1;
    if (epoch < 0)
        epoch = env_double("RCCLTUNE_SIM_EPOCH", 0);
    return epoch + 1e-6 * machine.common_us;
}

void hip_simulated_pass(double us)
{
    machine.common_us += us;
}

EXPORT const char *rccltune_simulated_words_v1(void)
{
    static char words[256];
    const struct node *node = hip_machine();
    if (node == NULL)
        return "no node file: kernels take no time";
    snprintf(words, sizeof words, "node %s, %s in %s: times come from its file, no GPU ran",
             node->name, node->product, node->mode);
    return words;
}
