/* The parts one by one: text, the node reader, NCCL_ALGO's grammar, interpolation, the cost model.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rccl.h"
#include "text.h"

static void test_text(void)
{
    struct text rest = text_of("a,,b"), piece;
    char copy[8];
    int64_t n;
    double d;
    CHECK(text_split(&rest, ',', &piece) && text_equals(piece, "a"));
    CHECK(text_split(&rest, ',', &piece) && text_equals(piece, ""));
    CHECK(text_split(&rest, ',', &piece) && text_equals(piece, "b"));
    CHECK(!text_split(&rest, ',', &piece));
    CHECK(text_to_int(text_of("-12"), -20, 0, &n) && n == -12);
    CHECK(!text_to_int(text_of("12x"), 0, 99, &n));
    CHECK(!text_to_int(text_of(" 12"), 0, 99, &n));
    CHECK(!text_to_int(text_of("99999999999999999999"), 0, INT64_MAX, &n));
    CHECK(text_to_double(text_of("1e-3"), 0, 1, &d) && d == 1e-3);
    CHECK(!text_to_double(text_of("nan"), 0, 1, &d));
    CHECK(!text_to_double(text_of("1e999"), 0, INFINITY, &d));
    CHECK(text_copy(text_of("a%20b"), copy, sizeof copy) && strcmp(copy, "a b") == 0);
    CHECK(!text_copy(text_of("%2"), copy, sizeof copy));
    CHECK(!text_copy(text_of("%00"), copy, sizeof copy));
    CHECK(!text_copy(text_of("12345678"), copy, sizeof copy));
}

static void test_releases(void)
{
    CHECK(version_code("2.28.3") == 22803);
    CHECK(version_code("2.20.5") == 22005);
    CHECK(version_code("2.20.4") == 0);
    CHECK(version_code("2.18.6") == 0);
    CHECK(version_code("2.28") == 0);
    CHECK(version_code("2.28.3x") == 0);
    CHECK(rccl_family(22005)->newest_abi == 1);
    CHECK(rccl_family(22105)->newest_abi == 2);
    CHECK(rccl_family(22203)->newest_abi == 3);
    CHECK(rccl_family(22709)->newest_abi == 4);
    CHECK(rccl_family(23102)->newest_abi == 6);
}

static int masks(const char *text, bool grammar, uint8_t *out)
{
    return envlist_read(text, grammar, algorithm_env_names, N_ALGORITHMS, out);
}

static void test_envlist(void)
{
    enum { TREE_BIT = 1 << ALGO_TREE, RING_BIT = 1 << ALGO_RING, ALL = (1 << N_ALGORITHMS) - 1 };
    uint8_t m[N_TUNABLE];
    CHECK(masks(NULL, true, m) == NCCL_SUCCESS && m[COLL_ALL_REDUCE] == ALL);
    CHECK(masks("ring", true, m) == NCCL_SUCCESS && m[COLL_BROADCAST] == RING_BIT);
    CHECK(masks("Ring,TREE", true, m) == NCCL_SUCCESS && m[COLL_REDUCE] == (RING_BIT | TREE_BIT));
    CHECK(masks("^tree", true, m) == NCCL_SUCCESS && m[COLL_ALL_REDUCE] == (ALL & ~TREE_BIT));
    CHECK(masks("^tree;AllReduce:tree", true, m) == NCCL_SUCCESS);
    CHECK(m[COLL_ALL_REDUCE] == TREE_BIT && m[COLL_ALL_GATHER] == (ALL & ~TREE_BIT));
    CHECK(masks("allreduce:ring;allgather:^ring", true, m) == NCCL_SUCCESS);
    CHECK(m[COLL_ALL_REDUCE] == RING_BIT && m[COLL_ALL_GATHER] == (ALL & ~RING_BIT));
    CHECK(m[COLL_BROADCAST] == ALL);
    CHECK(masks("rong", true, m) == NCCL_INVALID_USAGE);
    CHECK(masks("ring;tree", true, m) == NCCL_INVALID_USAGE);
    CHECK(masks("alltoall:ring", true, m) == NCCL_INVALID_USAGE);
    /* The older grammar has no functions and ignores what it does not know. */
    CHECK(masks("ring,rong", false, m) == NCCL_SUCCESS && m[COLL_ALL_REDUCE] == RING_BIT);
    CHECK(masks("allreduce:ring", false, m) == NCCL_SUCCESS && m[COLL_ALL_REDUCE] == 0);
}

static struct node cpx(void)
{
    struct node node = {.nvlink_inside = true, .all_xgmi = true};
    node.ring = node.tree = (struct graph){.channels = 16, .bw_intra = 3};
    return node;
}

static struct model model_of(int index, int ranks, int nodes, bool ll128, bool tree_simple)
{
    struct node node = cpx();
    struct model_limits limits = {.ll128 = ll128, .tree_simple = tree_simple};
    struct model model;
    memset(limits.algorithms, 0xff, sizeof limits.algorithms);
    memset(limits.protocols, 0xff, sizeof limits.protocols);
    model_build(&node, index, ranks, nodes, &limits, &model);
    return model;
}

/* The latency terms that follow from RCCL 2.28.3 src/graph/tuning.cc, worked out by hand. */
static void test_model(void)
{
    static const struct {
        int index, ranks, collective;
        double tree_ll, tree_ll128, ring_ll, ring_ll128, ring_simple;
    } rows[] = {
        {5, 8, COLL_ALL_REDUCE, 24.6, 24.6, 23.2, 23.2, 46.4},
        {5, 64, COLL_ALL_REDUCE, 125.4, 125.4, 112.8, 112.8, 281.6},
        {0, 64, COLL_ALL_REDUCE, 112.8, 188.4, 112.8, 289.2, 470.6},
        {5, 8, COLL_ALL_GATHER, 0, 0, 17.6, 17.6, 31.7},
        {5, 64, COLL_REDUCE_SCATTER, 0, 0, 62.4, 62.4, 149.3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m = model_of(rows[i].index, rows[i].ranks, 1, true, false);
        const float(*lat)[N_PROTOCOLS] = m.latency[rows[i].collective];
        CHECK_NEAR(lat[ALGO_TREE][PROTO_LL], rows[i].tree_ll, 0.01);
        CHECK_NEAR(lat[ALGO_TREE][PROTO_LL128], rows[i].tree_ll128, 0.01);
        CHECK_NEAR(lat[ALGO_RING][PROTO_LL], rows[i].ring_ll, 0.01);
        CHECK_NEAR(lat[ALGO_RING][PROTO_LL128], rows[i].ring_ll128, 0.01);
        CHECK_NEAR(lat[ALGO_RING][PROTO_SIMPLE], rows[i].ring_simple, 0.01);
    }
    struct model plain = model_of(5, 64, 1, false, false), patched = model_of(5, 64, 1, true, true);
    CHECK(model_time(&plain, COLL_ALL_REDUCE, ALGO_TREE, PROTO_SIMPLE, 1024, 1) == -1);
    CHECK(model_time(&plain, COLL_ALL_REDUCE, ALGO_RING, PROTO_LL128, 1024, 1) == -1);
    CHECK(model_time(&plain, COLL_ALL_GATHER, ALGO_TREE, PROTO_LL, 1024, 1) == -1);
    CHECK(model_time(&plain, COLL_ALL_REDUCE, ALGO_NVLS, PROTO_SIMPLE, 1024, 1) == -1);
    CHECK(model_time(&patched, COLL_ALL_REDUCE, ALGO_TREE, PROTO_SIMPLE, 1024, 1) > 0);
    CHECK(model_time(&patched, COLL_ALL_REDUCE, ALGO_RING, PROTO_LL128, 1024, 1) > 0);
    /* On several nodes tree/simple is there, and LL costs the network's latency. */
    struct model two = model_of(5, 16, 2, false, false);
    CHECK(model_time(&two, COLL_ALL_REDUCE, ALGO_TREE, PROTO_SIMPLE, 1024, 1) > 0);
    CHECK_NEAR(two.latency[COLL_ALL_REDUCE][ALGO_TREE][PROTO_LL], 12 + 2 * (7 * 0.9 + 10.5), 0.01);
    CHECK_NEAR(two.latency[COLL_ALL_REDUCE][ALGO_RING][PROTO_LL], 12 + 28 * 2.0 + 2 * 9.5, 0.01);
    /* Time is latency and bytes over bandwidth: 48 GB/s of 64 in 126 parts, all of it for Simple.
     */
    CHECK_NEAR(model_time(&plain, COLL_ALL_REDUCE, ALGO_RING, PROTO_SIMPLE, 1 << 20, 1),
               281.6 + 1048576 / (1000 * 48.0 * 64 / 126), 0.1);
}

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, 1 << 16);
    if (file == NULL || data == NULL)
        abort();
    *length = fread(data, 1, 1 << 16, file);
    fclose(file);
    return data;
}

static bool parses(const char *text, const char *expected)
{
    struct node node;
    char message[160] = "";
    bool ok = node_parse(text, strlen(text), &node, message, sizeof message);
    if (ok)
        node_free(&node);
    else if (expected != NULL && strstr(message, expected) == NULL)
        fprintf(stderr, "said '%s', not '%s'\n", message, expected);
    return ok || (expected != NULL && strstr(message, expected) == NULL);
}

static void test_node(const char *path)
{
    size_t length;
    char *data = read_file(path, &length), message[160];
    struct node node;
    CHECK(node_parse(data, length, &node, message, sizeof message));
    CHECK(strcmp(node.product, "AMD Instinct MI300X") == 0);
    CHECK(node.ranks == 8 && node.n_curves == 2 && node.n_effects == 8 && node.n_faults == 6);
    CHECK(node.n_bypasses == 2 && strcmp(node.bypasses[1].limit, "LIMIT") == 0);
    CHECK(node.spreads[SPREAD_BLOCK].n == 0 && node.spreads[SPREAD_LAUNCH].n == 2);
    CHECK(node.spreads[SPREAD_LAUNCH].at[0].y == 0.4);
    CHECK(node.drift.n == 2 && node.drift.at[1].x == 60 && node.drift.at[1].y == 1.1);
    CHECK(node.spreads[SPREAD_SETTING].n == 1);
    struct manner manner = {.graph = 2, .threads = 8, .gpus = 2};
    settle_variants(&node, &manner);
    CHECK(!node.variants[0].holds && node.variants[1].holds && !node.variants[2].holds);
    manner.graph = 1; /* captured, and launched once */
    settle_variants(&node, &manner);
    CHECK(!node.variants[1].holds && node.variants[2].holds);
    manner = (struct manner){.graph = 2, .threads = 8, .gpus = 1};
    settle_variants(&node, &manner);
    CHECK(!node.variants[1].holds);
    struct situation s = {
        .collective = COLL_ALL_REDUCE,
        .ranks = 8,
        .dtype = DTYPE_FLOAT,
        .n_bytes = 32,
        .what = {.path = PATH_TUNED, .algorithm = ALGO_TREE, .protocol = PROTO_LL}};
    CHECK_NEAR(true_time(&node, &s), 76, 1e-9);
    s.n_bytes = 8; /* flat below the first point, times 2 and times 1.5 */
    CHECK_NEAR(true_time(&node, &s), 76 * 3, 1e-9);
    s.n_bytes = 2097152; /* grows with the size behind the last */
    CHECK_NEAR(true_time(&node, &s), 572, 1e-9);
    s.n_bytes = 1500;
    double plain = true_time(&node, &s);
    s.mixed = true;
    CHECK_NEAR(true_time(&node, &s) / plain, 1.6, 1e-9);
    s.mixed_launch = true; /* as it is wherever mixed is */
    CHECK_NEAR(true_time(&node, &s) / plain, 1.6 * 1.25, 1e-9);
    s.mixed = false;
    CHECK_NEAR(true_time(&node, &s) / plain, 1.25, 1e-9);
    s.mixed_launch = false;
    s.n_bytes = 350;
    plain = true_time(&node, &s);
    s.ran_in_pass_before = setting_bit(PATH_TUNED, ALGO_RING, PROTO_LL); /* of no effect there */
    CHECK_NEAR(true_time(&node, &s) / plain, 1, 1e-9);
    s.ran_before = s.ran_in_pass_before | setting_bit(PATH_DDA, 0, 0);
    CHECK_NEAR(true_time(&node, &s) / plain, 1.5, 1e-9);
    s.ran_in_pass_before = setting_bit(PATH_DDA, 0, 0); /* but not at a first size */
    CHECK_NEAR(true_time(&node, &s) / plain, 1.5, 1e-9);
    s.first_after_switch = true;
    CHECK_NEAR(true_time(&node, &s) / plain, 1.5 * 3, 1e-9);
    s.mixed_launch = true;
    CHECK_NEAR(true_time(&node, &s) / plain, 1.5 * 3 * 1.25 * 7, 1e-9);
    s.ran_before = s.ran_in_pass_before = 0;
    s.mixed_launch = s.first_after_switch = false;
    s.n_bytes = 1048576;
    s.what.cap = 16; /* halfway between 8 (twice as slow) and 32 */
    CHECK_NEAR(true_time(&node, &s), 286 * sqrt(2), 1e-6);
    s.what.algorithm = ALGO_RING;
    CHECK(true_time(&node, &s) < 0);
    CHECK(!parses("rccltune-node 3\nend\n", "missing"));
    CHECK(!parses("rccltune-node 2\nend\n", "format"));
    CHECK(
        !parses("rccltune-node 3\nvariant a\nwhen without b 0 - -\nend\n", "not defined above"));
    CHECK(!parses("rccltune-node 3\nname a b\nend\n", "too many"));
    CHECK(!parses("rccltune-node 3\npoint 1 1\nend\n", "unknown"));
    CHECK(!parses("rccltune-node 3\nname a\n", "cut off"));
    CHECK(!parses("rccltune-node 3\nrow 3\nend\n", "belongs to nothing"));
    CHECK(!parses("rccltune-node 3\nwhen graph - 0 - -\nend\n", "belongs to nothing"));
    CHECK(!parses("rccltune-node 3\nlaunch-sigma 8:1.5\nend\n", "out of range"));
    CHECK(!parses("rccltune-node 3\nlaunch-sigma 0:0.5\nend\n", "out of range"));
    CHECK(!parses("rccltune-node 3\nlaunch-sigma 8\nend\n", "out of range"));
    CHECK(!parses("rccltune-node 3\nlaunch-sigma 8:0.5:1\nend\n", "out of range"));
    CHECK(!parses("rccltune-node 3\nlaunch-sigma 8:0.5 \nend\n", "out of range"));
    CHECK(!parses("rccltune-node 3\nsigma 8:0 8:0\nend\n", "ascend"));
    CHECK(
        !parses("rccltune-node 3\ncurve all_reduce p2p - - - - - - 0 9 0 0 0 x\nend\n", "points"));
    node_free(&node);
    free(data);
}

static void test_effects_that_make_no_sense(void)
{
    static const struct {
        const char *words, *said;
    } rows[] = {
        {"0 launch 0 1 2 2", "neither"},
        {"0 ever tree/ll 0 1 2 2", "name is unknown"},
        {"0 - - 1", "a word is missing"},
    };
    char text[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "rccltune-node 3\neffect - - - - - - - - 0 9 %s\nend\n",
                 rows[i].words);
        CHECK(!parses(text, rows[i].said));
    }
}

static void test_noise(void)
{
    struct point flat = {0, 0.02};
    struct node node = {.spreads = {[SPREAD_BLOCK] = {1, &flat}}};
    struct noise noise = {.seed = 7, .launch = "abc"}, other = {.seed = 7, .launch = "xyz"};
    struct situation s = {.collective = COLL_ALL_REDUCE, .n_bytes = 4096};
    double sum = 0, squares = 0;
    enum { N = 20000 };
    CHECK(block_factor(&node, &noise, &s, 1, 0) == block_factor(&node, &noise, &s, 1, 0));
    CHECK(block_factor(&node, &noise, &s, 1, 0) != block_factor(&node, &other, &s, 1, 0));
    for (int i = 0; i < N; i++) {
        double x = log(block_factor(&node, &noise, &s, (uint64_t)i, 0));
        sum += x;
        squares += x * x;
    }
    CHECK_NEAR(sum / N, 0, 0.0006);
    CHECK_NEAR(sqrt(squares / N), 0.02, 0.0005);
    struct point drift[] = {{10, 1}, {20, 1.1}};
    node = (struct node){.drift = {2, drift}};
    CHECK_NEAR(block_factor(&node, &noise, &s, 1, 5), 1, 1e-12);
    CHECK_NEAR(block_factor(&node, &noise, &s, 1, 15), 1.05, 1e-12);
    CHECK_NEAR(block_factor(&node, &noise, &s, 1, 99), 1.1, 1e-12);
    node = (struct node){.burst_probability = 0.25, .burst_seconds = 2, .burst_factor = 3};
    int bursts = 0;
    for (int i = 0; i < 4000; i++) {
        double early = block_factor(&node, &noise, &s, 1, 2 * i + 0.1);
        CHECK(early == block_factor(&node, &other, &s, 9, 2 * i + 1.9)); /* of time alone */
        bursts += early > 2;
    }
    CHECK_NEAR(bursts / 4000.0, 0.25, 0.03);
}

/* A launch draws once: at each size the same number of sigmas, where sigma is a straight line over
 * the logarithm of the size. */
static void test_launch_noise_by_size(void)
{
    struct point sigmas[] = {{10, 0.4}, {14, 0.2}, {20, 0}}; /* 1 KiB, 16 KiB, 1 MiB */
    static const struct {
        size_t n_bytes;
        double sigma;
    } rows[] = {{0, 0.4}, {8, 0.4}, {1024, 0.4}, {4096, 0.3}, {131072, 0.1}, {1 << 20, 0}};
    struct node node = {.spreads = {[SPREAD_LAUNCH] = {3, sigmas}}};
    struct situation s = {.collective = COLL_ALL_REDUCE};
    double sum = 0, squares = 0;
    enum { N = 4000 };
    for (int i = 0; i < N; i++) {
        char launch[16];
        snprintf(launch, sizeof launch, "l%d", i);
        struct noise noise = {.seed = 3, .launch = launch};
        s.n_bytes = 1024;
        s.what.protocol = PROTO_LL;
        double drawn = log(block_factor(&node, &noise, &s, 1, 0)) / 0.4;
        sum += drawn;
        squares += drawn * drawn;
        s.what.protocol = PROTO_SIMPLE; /* whatever runs, in whichever pass */
        for (size_t r = 0; r < sizeof rows / sizeof *rows && i < 20; r++) {
            s.n_bytes = rows[r].n_bytes;
            CHECK_NEAR(log(block_factor(&node, &noise, &s, r, 0)), rows[r].sigma * drawn, 1e-12);
        }
    }
    /* Standard normal, each within 4 standard errors. */
    CHECK_NEAR(sum / N, 0, 4 / sqrt(N));
    CHECK_NEAR(squares / N, 1, 4 * sqrt(2.0 / N));
}

/* What a setting has of its own in a launch: the same in all passes, another one wherever anything
 * else differs. */
static void test_setting_noise(void)
{
    struct point sigmas[] = {{10, 0.05}, {12, 0}};
    struct node node = {.spreads = {[SPREAD_SETTING] = {2, sigmas}}}, none = {.ranks = 0};
    struct noise noise = {.seed = 3, .launch = "a"};
    const struct situation plain = {.collective = COLL_ALL_REDUCE, .n_bytes = 1024};
    struct situation others[] = {plain, plain, plain, plain, plain, plain};
    double first = block_factor(&node, &noise, &plain, 1, 0), squares = 0, product = 0;
    others[0].collective = COLL_ALL_GATHER;
    others[1].dtype = DTYPE_HALF;
    others[2].in_place = 1;
    others[3].what.protocol = PROTO_SIMPLE;
    others[4].what.cap = 8;
    others[5].n_bytes = 1000; /* flat below the first point */
    CHECK(first != 1 && block_factor(&none, &noise, &plain, 1, 0) == 1);
    CHECK(first == block_factor(&node, &noise, &plain, 2, 99));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(block_factor(&node, &noise, &others[i], 1, 0) != first);
    others[5].n_bytes = 8192;
    CHECK(block_factor(&node, &noise, &others[5], 1, 0) == 1); /* sigma is 0 from 4 KiB */
    enum { N = 4000 };
    for (int i = 0; i < N; i++) {
        char launch[16];
        snprintf(launch, sizeof launch, "l%d", i);
        noise.launch = launch;
        double one = log(block_factor(&node, &noise, &plain, 1, 0)) / 0.05;
        double other = log(block_factor(&node, &noise, &others[3], 1, 0)) / 0.05;
        squares += one * one;
        product += one * other;
    }
    CHECK_NEAR(squares / N, 1, 4 * sqrt(2.0 / N));
    CHECK_NEAR(product / N, 0,
               4 / sqrt(N)); /* two settings of one launch know nothing of each other */
}

/* Sigma of a block, by size: half of it four octaves below the end of the line. */
static void test_block_noise_by_size(void)
{
    struct point sigmas[] = {{10, 0.04}, {18, 0}};
    struct point flat = {0, 0.02};
    struct node node = {.spreads = {[SPREAD_BLOCK] = {2, sigmas}}};
    struct node number = {.spreads = {[SPREAD_BLOCK] = {1, &flat}}};
    struct noise noise = {.seed = 3, .launch = "a"};
    struct situation s = {.collective = COLL_ALL_REDUCE, .n_bytes = 1 << 14};
    for (uint64_t cycle = 0; cycle < 50; cycle++)
        CHECK(block_factor(&node, &noise, &s, cycle, 0) ==
              block_factor(&number, &noise, &s, cycle, 0));
    s.n_bytes = 1 << 20;
    CHECK(block_factor(&node, &noise, &s, 1, 0) == 1);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(__FILE__, '/');
    char path[4096];
    snprintf(path, sizeof path, "%.*ssmall.node", slash == NULL ? 0 : (int)(slash + 1 - __FILE__),
             __FILE__);
    test_text();
    test_releases();
    test_envlist();
    test_model();
    test_node(argc > 1 ? argv[1] : path);
    test_effects_that_make_no_sense();
    test_noise();
    test_launch_noise_by_size();
    test_setting_noise();
    test_block_noise_by_size();
    return check_failures != 0;
}
