/* One ABI version, through the real library: test_abi LIBRARY VERSION. */
#include "check.h"
#include "host.h"
#include "tree.h"

enum { MAX_CELLS = 32 };

static struct host host;
static char root[256];
static char rules[512];

static void use_rules(const char *content)
{
    CHECK(tree_put(root, "rules.csv", content));
}

/* Asks with a table of `value`s and reports which cell became 0 (-1: none) and whether any other
 * cell changed. */
static int ask(int collective, size_t n_bytes, int reg_buff, int n_algorithms, int n_protocols,
               float value, int *n_channels)
{
    float table[MAX_CELLS + 2];
    struct host_call call = {collective, n_bytes,      1,           reg_buff,
                             table + 1,  n_algorithms, n_protocols, *n_channels};
    int cell = -1;
    for (int i = 0; i < MAX_CELLS + 2; i++) {
        table[i] = value;
    }
    CHECK(host_ask(&host, &call) == ABI_SUCCESS);
    for (int i = 0; i < MAX_CELLS + 2; i++) {
        bool zeroed = memcmp(&table[i], &(float){0.0F}, sizeof(float)) == 0 && value != 0.0F;
        CHECK(zeroed || memcmp(&table[i], &value, sizeof value) == 0);
        CHECK(!zeroed || cell == -1);
        cell = zeroed ? i - 1 : cell;
    }
    *n_channels = call.n_channels;
    return cell;
}

static int ask_simply(int collective, size_t n_bytes)
{
    int n_channels = 0;
    return ask(collective, n_bytes, 0, 7, 3, 5.0F, &n_channels);
}

static void check_bounds_and_strides(void)
{
    int n_channels = -77;
    use_rules("allreduce,100,200,ring,simple,-1,-1,-1\nallgather,0,18446744073709551615,ring,ll,24,"
              "1,64\n");
    CHECK(host_init(&host, 64, 1) == ABI_SUCCESS && host.context != NULL);
    CHECK(ask_simply(4, 99) == -1 && ask_simply(4, 201) == -1);
    CHECK(ask_simply(4, 100) == 5 && ask_simply(4, 200) == 5);
    CHECK(ask(4, 150, 0, 6, 3, 5.0F, &n_channels) == 5 && n_channels == -77);
    CHECK(ask(4, 150, 0, 7, 4, 5.0F, &n_channels) == 6 && n_channels == -77);
    CHECK(ask(4, 150, 0, 8, 3, 5.0F, &n_channels) == 5);
    CHECK(ask(2, SIZE_MAX, 0, 7, 3, 5.0F, &n_channels) == 3 && n_channels == 24);
    n_channels = 3;
    CHECK(ask(0, 150, 0, 7, 3, 5.0F, &n_channels) == -1 && n_channels == 3);
    for (int collective = 5; collective < 20; collective++) {
        CHECK(ask_simply(collective, 150) == -1);
    }
    CHECK(ask_simply(-1, 150) == -1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

static void check_cells_that_cannot_be_chosen(void)
{
    int n_channels = 0;
    const float closed[] = {-1.0F, -1024.0F, -0.5F};
    use_rules("allreduce,0,1000,ring,simple,9,-1,-1\n");
    CHECK(host_init(&host, 64, 1) == ABI_SUCCESS);
    if (host.version > 2) {
        for (size_t i = 0; i < 3; i++) {
            CHECK(ask(4, 150, 0, 7, 3, closed[i], &n_channels) == -1 && n_channels == 0);
        }
        CHECK(ask(4, 150, 0, 1, 3, 5.0F, &n_channels) == -1 && n_channels == 0);
        CHECK(ask(4, 150, 0, 7, 2, 5.0F, &n_channels) == -1 && n_channels == 0);
        CHECK(ask(4, 150, 0, 0, 0, 5.0F, &n_channels) == -1);
        CHECK(ask(4, 150, 0, -3, 3, 5.0F, &n_channels) == -1 && n_channels == 0);
        CHECK(ask(4, 150, 0, 7, 3, 0.0F, &n_channels) == -1 && n_channels == 9);
        struct host_call call = {4, 150, 1, 0, NULL, 7, 3, 0};
        CHECK(host_ask(&host, &call) == ABI_SUCCESS && call.n_channels == 0);
    }
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

/* What the adapter of version 2 lets through; the others answer all of it. */
static void check_version_2_caution(void)
{
    static const char *const names[] = {"broadcast", "reduce", "allgather", "reducescatter",
                                        "allreduce"};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    char row[128];
    for (int collective = 0; collective < 5; collective++) {
        for (int cell = collective == 4 ? 0 : 3; cell < 6; cell++) {
            bool safe = cell == 3 || cell == 5 || (collective == 4 && cell == 0);
            (void)snprintf(row, sizeof row, "%s,0,9,%s,%s,-1,-1,-1\n", names[collective],
                           cell < 3 ? "tree" : "ring", protocols[cell % 3]);
            use_rules(row);
            CHECK(host_init(&host, 8, 1) == ABI_SUCCESS);
            CHECK(ask_simply(collective, 5) == (host.version > 2 || safe ? cell : -1));
            CHECK(host_finalize(&host) == ABI_SUCCESS);
        }
    }
}

static void check_filters_and_fallback(void)
{
    int n_channels = 0;
    use_rules("allreduce,0,10,ring,ll,1,-1,-1,-1,1\nallreduce,0,10,ring,simple,2,-1,-1,-1,0\n"
              "allreduce,0,10,ring,ll,3,2,-1\nallreduce,0,10,ring,ll,4,-1,-1,7\n"
              "allreduce,0,10,nvls_tree,ll128,5,-1,-1\nallreduce,0,10,-1,-1,6,-1,-1\n");
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(ask(4, 5, 0, 7, 3, 5.0F, &n_channels) == 5 && n_channels == 2);
    /* Versions 2 and 3 have no such argument: whatever the host thinks, it is not registered. */
    bool says = host.version >= 4;
    CHECK(ask(4, 5, 1, 7, 3, 5.0F, &n_channels) == (says ? 3 : 5) && n_channels == (says ? 1 : 2));
    CHECK(ask(4, 5, 2, 7, 3, 5.0F, &n_channels) == (says ? 16 : 5));
    CHECK(ask(4, 5, 2, 5, 3, 5.0F, &n_channels) == (says ? -1 : 5) && n_channels == (says ? 6 : 2));
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

static void check_inert(void)
{
    use_rules("allreduce,0,10,ring,ll,1,-1,-1\n");
    CHECK(host_init(&host, 1, 1) == ABI_SUCCESS && ask_simply(4, 5) == -1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    CHECK(host_init(&host, 0, 0) == ABI_SUCCESS && host_finalize(&host) == ABI_SUCCESS);
    CHECK(unsetenv("NCCL_TUNER_CONFIG_FILE") == 0);
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS && ask_simply(4, 5) == -1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    CHECK(setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent/rules.csv", 1) == 0);
    CHECK(host_init(&host, 8, 1) == ABI_INVALID_USAGE && host.context == NULL);
    CHECK(setenv("NCCL_TUNER_CONFIG_FILE", rules, 1) == 0);
    if (host.version == 6) {
        CHECK(((const struct abi_tuner_v6 *)host.symbol)->get_chunk_size == NULL);
    } else if (host.version == 7) {
        CHECK(((const struct abi_tuner_v7 *)host.symbol)->get_chunk_size == NULL);
    }
    if (host.version >= 5) {
        CHECK(((const struct abi_tuner_v5 *)host.symbol)->init(NULL, 1, 8, 1, NULL, NULL, NULL) ==
              ABI_INVALID_USAGE);
    }
    CHECK_STRING(((const struct abi_tuner_v2 *)host.symbol)->name, "rccltune");
}

/* The model belongs to the host: what init is handed stays as it was, as wide as the widest version
 * has it (latencies, then five tables by compute capability and scale) and behind that. */
static void check_the_model_is_left_alone(void)
{
    enum { LATENCIES = 7 * 3 + 3 * 7 * 3, OF_V7 = LATENCIES + 5 * 5 * 3 };
    double constants[OF_V7 + 64];
    int domain[3] = {1, 8, 8};
    void *context = NULL;
    for (int i = 0; i < OF_V7 + 64; i++) {
        constants[i] = i + 0.5;
    }
    use_rules("allreduce,0,10,ring,ll,4,-1,-1\n");
    if (host.version == 7) {
        const struct abi_tuner_v7 *v7 = host.symbol;
        CHECK(v7->init(&context, 1, 8, 1, NULL, (struct abi_nvl_domain_info *)domain,
                       (struct abi_tuner_constants_v7 *)constants) == ABI_SUCCESS);
    } else if (host.version >= 5) {
        const struct abi_tuner_v5 *v5 = host.symbol;
        CHECK(v5->init(&context, 1, 8, 1, NULL, (struct abi_nvl_domain_info *)domain,
                       (struct abi_tuner_constants *)constants) == ABI_SUCCESS);
    } else {
        return;
    }
    for (int i = 0; i < OF_V7 + 64; i++) {
        CHECK(memcmp(&constants[i], &(double){i + 0.5}, sizeof(double)) == 0);
    }
    CHECK(domain[0] == 1 && domain[1] == 8 && domain[2] == 8);
    CHECK(context != NULL &&
          ((const struct abi_tuner_v5 *)host.symbol)->finalize(context) == ABI_SUCCESS);
}

static void check_null_answers(void)
{
    int algorithm = 7;
    use_rules("allreduce,0,10,ring,ll,4,-1,-1\n");
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS);
    if (host.version == 2) {
        const struct abi_tuner_v2 *v2 = host.symbol;
        CHECK(v2->get_coll_info(host.context, 4, 5, 0, 0, 1, NULL, NULL, NULL) == ABI_SUCCESS);
        CHECK(v2->get_coll_info(host.context, 4, 5, 0, 0, 1, &algorithm, &algorithm, NULL) ==
              ABI_SUCCESS);
        CHECK(algorithm == 0);
    } else if (host.version >= 4) {
        float table[21] = {1.0F};
        const struct abi_tuner_v4 *v4 = host.symbol;
        CHECK(v4->get_coll_info(host.context, 4, 5, 1, (float **)(void *)table, 7, 3, 0, NULL) ==
              ABI_SUCCESS);
    }
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 && host_load(&host, argv[1], atoi(argv[2])));
    if (check_failures > 0) {
        return check_result();
    }
    tree_make(root, sizeof root);
    (void)snprintf(rules, sizeof rules, "%s/rules.csv", root);
    CHECK(setenv("NCCL_TUNER_CONFIG_FILE", rules, 1) == 0);
    check_bounds_and_strides();
    check_cells_that_cannot_be_chosen();
    check_version_2_caution();
    check_filters_and_fallback();
    check_inert();
    check_the_model_is_left_alone();
    check_null_answers();
    tree_remove(root);
    return check_result();
}
