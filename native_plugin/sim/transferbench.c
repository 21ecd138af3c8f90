/*
 * TransferBench on a node that does not exist: its a2a preset, in the columns of releases up
 * to 1.62. What a link carries is the node file's sendrecv of two devices so placed
 * (docs/node-file.md), with the node's noise; that all links are busy at once slows none down here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "times.h"

enum { DEFAULT_MIB = 64 };

static size_t bytes_of(const char *text)
{
    static const char units[] = "KMG";
    size_t length = strlen(text);
    const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;
    int64_t number;
    if (unit != NULL)
        length--;
    struct text digits = {text, text + length};
    if (!text_to_int(digits, 1, 1 << 20, &number))
        sim_fail("'%s' is no number of bytes", text);
    return (size_t)number << (unit != NULL ? 10 * (unit - units + 1) : 0);
}

static int placement_of_pair(const struct node *node, int a, int b)
{
    int per_oam = node->devices_per_oam, per_iod = node->devices_per_iod;
    if (a / per_oam != b / per_oam)
        return PLACE_ONE_PER_OAM;
    return per_iod > 0 && a % per_oam / per_iod == b % per_oam / per_iod ? PLACE_ONE_IOD
                                                                         : PLACE_ONE_OAM;
}

/* GB/s; 0 where the node file does not say. */
static double rate(const struct node *node, const struct noise *noise, size_t n_bytes, int n, int a,
                   int b)
{
    struct situation pair = {.collective = COLL_SENDRECV,
                             .what = {.path = PATH_P2P},
                             .ranks = 2,
                             .placement = placement_of_pair(node, a, b),
                             .dtype = DTYPE_FLOAT,
                             .n_bytes = n_bytes};
    double time = true_time(node, &pair, NULL);
    if (time <= 0)
        return 0;
    time *= block_factor(node, noise, &pair, (uint64_t)(a * n + b), 0);
    return (double)n_bytes / time / 1e3;
}

static void print_table(const struct node *node, size_t n_bytes)
{
    struct noise noise = {.launch = "transferbench"};
    const char *seed = getenv("RCCLTUNE_SIM_SEED");
    double all = 0;
    int n = node->ranks / node->nodes;
    noise.seed = seed != NULL ? strtoull(seed, NULL, 10) : 0;
    printf("\nSummary: [%zu bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]\n", n_bytes);
    printf("===========================================================================\n");
    printf("SRC\\DST ");
    for (int b = 0; b < n; b++)
        printf(" GPU %02d    ", b);
    printf("    STotal      Actual\n");
    for (int a = 0; a < n; a++) {
        double sum = 0, least = 0;
        int links = 0;
        printf("GPU %02d", a);
        for (int b = 0; b < n; b++) {
            double speed = a == b ? 0 : rate(node, &noise, n_bytes, n, a, b);
            if (speed <= 0) {
                printf(" %8s  ", "N/A");
                continue;
            }
            printf(" %8.3f  ", speed);
            sum += speed;
            least = links++ == 0 || speed < least ? speed : least;
        }
        printf("    %8.3f    %8.3f\n", sum, least * links);
        all += sum;
    }
    printf("\nAggregate bandwidth (GPU Timed): %8.3f GB/s\n", all);
    printf("Aggregate bandwidth (CPU Timed): %8.3f GB/s\n", all);
}

int main(int argc, char **argv)
{
    static struct node node;
    node_load(getenv("RCCLTUNE_SIM_NODE"), &node);
    settle_variants(&node, &(struct manner){.threads = 1, .gpus = 1});
    printf("# SIMULATED node %s: no hardware was measured\n", node.name);
    printf("TransferBench v1.62.00-simulated\n");
    if (argc < 2 || strcmp(argv[1], "a2a") != 0) {
        printf("[ERROR] the stand-in plays the preset a2a alone\n");
        return EXIT_FAILURE;
    }
    print_table(&node, argc > 2 ? bytes_of(argv[2]) : (size_t)DEFAULT_MIB << 20);
    node_free(&node);
    return EXIT_SUCCESS;
}
