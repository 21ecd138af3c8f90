/* Design §7, cases a, b and c, for every way into them: test_config MACHINES FAKE_HIP FAKE_NCCL
 * FAKE_RCCL. */
#include "check.h"
#include "config.h"
#include "tree.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROW "allreduce,0,1024,tree,ll,-1,-1,-1\n"

static char root[256];    /* rule files */
static char machine[256]; /* the made-up /sys */
static const char *machines;
static const char *const variables[] = {"NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR",
                                        "RCCLTUNE_MODE",          "RCCLTUNE_PLACEMENT",
                                        "RCCLTUNE_ON_ERROR",      "RCCLTUNE_STRICT",
                                        "RCCLTUNE_LOG",           "RCCLTUNE_RECORD",
                                        "RCCLTUNE_SYSROOT",       "NEEDED"};
static const void *host;     /* an address in the library that asks, or NULL */
static struct config config; /* of the last load */

static void clear(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        (void)unsetenv(variables[i]);
    }
}

static void use_machine(const char *name)
{
    char path[512];
    tree_remove(machine);
    tree_make(machine, sizeof machine);
    (void)snprintf(path, sizeof path, "%s/%s.machine", machines, name);
    CHECK(tree_write(path, machine));
    (void)setenv("RCCLTUNE_SYSROOT", machine, 1);
}

static void use_file(const char *content)
{
    char path[512];
    CHECK(tree_put(root, "rules.csv", content));
    (void)snprintf(path, sizeof path, "%s/rules.csv", root);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
}

/* Loads for `n_ranks` on one node and checks the outcome, and that the reason names `word`. */
#define EXPECT(n_ranks, outcome, word) expect(__LINE__, (n_ranks), (outcome), (word))

static void expect(int line, uint64_t n_ranks, enum config_outcome wanted, const char *word)
{
    struct settings settings;
    char reason[512] = "";
    enum config_outcome outcome = CONFIG_WRONG;
    config.table = NULL;
    if (settings_read(&settings, reason, sizeof reason)) {
        outcome = config_load(&settings, 1, n_ranks, host, &config);
        (void)snprintf(reason, sizeof reason, "%.500s", config.reason);
    }
    if (outcome != wanted || strstr(reason, word) == NULL ||
        (outcome == CONFIG_RULES) != (config.table != NULL)) {
        (void)fprintf(stderr, "line %d: outcome %d, not %d; '%s' should have '%s'\n", line, outcome,
                      wanted, reason, word);
        check_failures++;
    }
    config_release(&config);
}

static void check_settings(void)
{
    static const char *const bad[][2] = {{"RCCLTUNE_ON_ERROR", "maybe"},
                                         {"RCCLTUNE_STRICT", "yes"},
                                         {"RCCLTUNE_MODE", "cpx"},
                                         {"RCCLTUNE_LOG", "loud"},
                                         {"RCCLTUNE_ON_ERROR", "Fail"},
                                         {"RCCLTUNE_LOG", "summaryx:f"},
                                         {"RCCLTUNE_MODE", "cpx-nps4-x"},
                                         {"RCCLTUNE_PLACEMENT", "../x"},
                                         {"NCCL_TUNER_CONFIG_FILE", "a\nrccltune: "},
                                         {"RCCLTUNE_RECORD", "a\x1b[2J"},
                                         {"RCCLTUNE_PLACEMENT", "One-OAM"},
                                         {"RCCLTUNE_PLACEMENT", "aaaaaaaaaaaaaaaaaaaaaaaa"}};
    static const char *const good[][2] = {{"RCCLTUNE_ON_ERROR", "fail"},
                                          {"RCCLTUNE_STRICT", "0"},
                                          {"RCCLTUNE_MODE", "auto"},
                                          {"RCCLTUNE_LOG", "off"},
                                          {"RCCLTUNE_LOG", "decisions:/tmp/x"},
                                          {"RCCLTUNE_PLACEMENT", "aaaaaaaaaaaaaaaaaaaaaaa"},
                                          {"RCCLTUNE_RECORD", "out.csv"},
                                          {"RCCLTUNE_RECORD", ""}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        clear();
        (void)setenv(bad[i][0], bad[i][1], 1);
        EXPECT(8, CONFIG_WRONG, bad[i][0]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        clear();
        (void)setenv(good[i][0], good[i][1], 1);
        EXPECT(8, CONFIG_NOTHING, "R07 nothing-set: neither");
    }
}

/* What `<(...)` of a shell hands over, with a whole rule file in it. */
static void check_pipe(void)
{
    int ends[2];
    char path[64];
    CHECK(pipe(ends) == 0 && write(ends[1], ROW, strlen(ROW)) > 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    EXPECT(8, CONFIG_WRONG, "no regular file");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void check_files(void)
{
    char path[CONFIG_PATH_SIZE + 16];
    clear();
    use_file(ROW);
    EXPECT(8, CONFIG_RULES, "");
    use_file("allreduce,0,1024,tree,ll,-1,-1,64\n");
    EXPECT(8, CONFIG_NOTHING, "R14 other-scale: ");
    use_file("allreduce,0,1024,bush,ll,-1,-1,64\n");
    EXPECT(8, CONFIG_WRONG, "line 1: unknown algorithm 'bush'");
    use_file("alltoall,0,1024,ring,ll,-1,-1,64\n" ROW);
    EXPECT(8, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_STRICT", "1", 1);
    EXPECT(8, CONFIG_WRONG, "R10 file-refused: ");
    clear();
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent", 1);
    EXPECT(8, CONFIG_WRONG, "R08 file-unreadable: ");
    (void)setenv("NCCL_TUNER_CONFIG_FILE", root, 1); /* a directory */
    EXPECT(8, CONFIG_WRONG, "no regular file");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    EXPECT(8, CONFIG_WRONG, "too long");
    (void)snprintf(path, sizeof path, "%s/pipe", root);
    CHECK(mkfifo(path, 0600) == 0); /* must not wait for a writer */
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    EXPECT(8, CONFIG_WRONG, "no regular file");
    check_pipe();
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/dev/zero", 1);
    EXPECT(8, CONFIG_WRONG, "no regular file");
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/self/mem", 1); /* regular, and not to be read */
    EXPECT(8, CONFIG_WRONG, "cannot be read");
    use_file("");
    EXPECT(8, CONFIG_WRONG, "the file is empty");
    use_file("#@ format 1\n" ROW);
    EXPECT(8, CONFIG_WRONG, "'#@ end 1'");
    use_file("#@ format 1\n" ROW "#@ end 1\n");
    EXPECT(8, CONFIG_RULES, "");
    (void)snprintf(path, sizeof path, "%s/link", root); /* as Kubernetes mounts a ConfigMap */
    CHECK(symlink("rules.csv", path) == 0);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    EXPECT(8, CONFIG_RULES, "");
    use_file("");
    CHECK(truncate(path, RULE_FILE_MAX_BYTES + 1) == 0);
    EXPECT(8, CONFIG_WRONG, "larger than the limit");
}

/* A file with many long mistakes: the reason is cut, never overrun. */
static void check_long_reasons(void)
{
    char content[4096] = "";
    for (size_t i = 0; i < 12; i++) {
        (void)strcat(
            content,
            "allreduce,0,1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,"
            "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb,-1,-1,-1\n");
    }
    clear();
    use_file(content);
    EXPECT(8, CONFIG_WRONG, "24 errors");
}

static void check_table_limits(void)
{
    FILE *file;
    char path[512];
    clear();
    use_file(ROW);
    (void)snprintf(path, sizeof path, "%s/rules.csv", root);
    file = fopen(path, "w");
    for (int i = 0; file != NULL && i <= TABLE_MAX_KINDS; i++) {
        (void)fprintf(file, "allreduce,0,10,ring,ll,-1,-1,-1,%d\n", i);
    }
    CHECK(file != NULL && fclose(file) == 0);
    EXPECT(8, CONFIG_WRONG, "more than 128 different");
    file = fopen(path, "w");
    for (int i = 0; file != NULL && i < 70000; i++) {
        (void)fprintf(file, "allreduce,%d,%d,ring,ll,-1,-1,-1,%d\n", i, i + 70000,
                      i % TABLE_MAX_KINDS);
    }
    CHECK(file != NULL && fclose(file) == 0);
    EXPECT(8, CONFIG_WRONG, "limit: 8388608 list entries");
}

static void check_directory(void)
{
    clear();
    (void)setenv("RCCLTUNE_CONFIG_DIR", root, 1);
    CHECK(tree_put(root, "rccl_tuner_gfx942_cpx-nps4.csv", ROW));
    CHECK(tree_put(root, "rccl_tuner_gfx90a_none.csv", ROW));
    use_machine("mi300x-cpx-nps4");
    EXPECT(64, CONFIG_RULES, "");
    use_machine("mi300x-spx-nps1");
    EXPECT(8, CONFIG_NOTHING, "no file for this arch and mode");
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(8, CONFIG_RULES, "");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("mi250x");
    EXPECT(8, CONFIG_RULES, "");
    use_machine("no-amd-gpu");
    EXPECT(8, CONFIG_NOTHING, "no AMD GPU");
    use_machine("mi300x-mixed");
    EXPECT(8, CONFIG_UNSURE, "RCCLTUNE_MODE");
    (void)setenv("FAKE_HIP_BUS", "0000:95:00.1", 1);
    use_machine("sriov-guest-no-memory-file");
    EXPECT(8, CONFIG_UNSURE, "spx-?");
    use_machine("container-no-gpu");
    EXPECT(8, CONFIG_UNSURE, "hidden");
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(8, CONFIG_UNSURE, "NCCL_TUNER_CONFIG_FILE");
    use_machine("container-no-kfd");
    EXPECT(8, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_SYSROOT", "/proc/nonexistent", 1);
    EXPECT(8, CONFIG_UNSURE, "cannot be opened");
    (void)setenv("RCCLTUNE_CONFIG_DIR", "/proc/nonexistent", 1);
    EXPECT(8, CONFIG_WRONG, "cannot be opened");
}

static void check_long_directory(void)
{
    char path[CONFIG_PATH_SIZE] = "";
    clear();
    use_machine("mi300x-cpx-nps4");
    for (size_t i = 0; i + 2 < sizeof path - 20; i += 2) {
        (void)strcat(path, "/."); /* names the root, at great length */
    }
    (void)setenv("RCCLTUNE_CONFIG_DIR", path, 1);
    EXPECT(8, CONFIG_WRONG, "too long");
}

static void check_requirements(void)
{
    clear();
    use_machine("mi300x-cpx-nps4");
    use_file("#@ requires arch=gfx942 device=0x74a1 cus=38 compute=CPX memory=NPS4 "
             "placement=node\n" ROW);
    EXPECT(64, CONFIG_RULES, "");
    use_machine("mi300x-cpx-nps1");
    EXPECT(64, CONFIG_WRONG, "R12 mode-mismatch: ");
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(64, CONFIG_RULES, "");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("mi308x-cpx-nps1");
    EXPECT(64, CONFIG_WRONG, "R13 machine-mismatch: ");
    use_machine("no-amd-gpu");
    EXPECT(64, CONFIG_WRONG, "mode=none");
    use_machine("no-sysfs");
    EXPECT(64, CONFIG_UNSURE, "RCCLTUNE_MODE");
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(64, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_MODE", "none", 1);
    EXPECT(64, CONFIG_WRONG, "mode=none");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("old-driver-cpx");
    EXPECT(64, CONFIG_UNSURE, "cpx-?");
    use_file("#@ requires compute=CPX\n" ROW);
    EXPECT(64, CONFIG_RULES, "");
    use_file("#@ requires arch=gfx950\n" ROW);
    EXPECT(64, CONFIG_WRONG, "arch=gfx942");
    use_file("#@ requires arch=gfx942\n" ROW);
    use_machine("no-sysfs");
    EXPECT(64, CONFIG_UNSURE, "requires gfx942");
    use_machine("mi300x-mixed");
    use_file("#@ requires compute=CPX\n" ROW);
    EXPECT(64, CONFIG_UNSURE, "not alike");
}

/* The product of NVIDIA's GPUs, which /proc says: checked where it is known. */
static void check_product(void)
{
    clear();
    use_file("#@ requires product=NVIDIA-H200\n" ROW);
    use_machine("nvidia-h200");
    EXPECT(8, CONFIG_RULES, "");
    CHECK(!config.product_unchecked);
    use_machine("nvidia-h100");
    EXPECT(8, CONFIG_WRONG,
           "this one is arch=? device=0x0 cus=0 mode=none "
           "product=NVIDIA-H100-80GB-HBM3");
    (void)setenv("RCCLTUNE_MODE", "none", 1); /* says nothing of a product */
    EXPECT(8, CONFIG_WRONG, "product=NVIDIA-H200;");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("mi300x-cpx-nps4"); /* no NVIDIA at all */
    EXPECT(64, CONFIG_WRONG, "this one is arch=gfx942");
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(64, CONFIG_WRONG, "this one is arch=gfx942");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("no-amd-gpu"); /* what a simulated node's ranks see, and their mode is said */
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(64, CONFIG_WRONG, "this one is arch=? device=0x0 cus=0 mode=cpx-nps4");
    (void)unsetenv("RCCLTUNE_MODE");
    use_machine("nvidia-and-igpu");
    EXPECT(2, CONFIG_WRONG, "product=NVIDIA-GeForce-RTX-4090");
    use_machine("nvidia-old-driver");
    EXPECT(2, CONFIG_WRONG, "product=NVIDIA-A100-SXM4-40GB");
    use_file("#@ requires product=A100-SXM4-40GB\n" ROW);
    EXPECT(2, CONFIG_RULES, "");
    use_file("#@ requires arch=gfx942\n" ROW);
    EXPECT(2, CONFIG_WRONG, "arch=gfx942");
}

static void check_unknown_product(void)
{
    static const char *const unknown[] = {"nvidia-two-models", "nvidia-without-model", "no-amd-gpu",
                                          "no-sysfs", "container-no-gpu"};
    clear();
    use_file("#@ requires product=NVIDIA-H200\n" ROW);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        use_machine(unknown[i]);
        EXPECT(8, CONFIG_RULES, "");
        CHECK(config.product_unchecked);
    }
    (void)setenv("RCCLTUNE_SYSROOT", "/proc/nonexistent", 1);
    EXPECT(8, CONFIG_RULES, "");
    CHECK(config.product_unchecked);
    use_file(ROW);
    EXPECT(8, CONFIG_RULES, "");
    CHECK(!config.product_unchecked);
}

/* The library that asks says whose GPUs it serves, whatever the machine shows. */
static void check_product_by_library(const char *nccl, const char *rccl)
{
    void *libraries[] = {dlopen(rccl, RTLD_NOW | RTLD_LOCAL), dlopen(nccl, RTLD_NOW | RTLD_LOCAL)};
    CHECK(libraries[0] != NULL && libraries[1] != NULL);
    clear();
    use_file("#@ requires product=NVIDIA-H200\n" ROW);
    host = dlsym(libraries[0], "fake_logger");
    use_machine("no-sysfs");
    EXPECT(8, CONFIG_WRONG, "requires another machine");
    use_machine("nvidia-h200");
    EXPECT(8, CONFIG_WRONG, "requires another machine");
    host = dlsym(libraries[1], "fake_logger");
    EXPECT(8, CONFIG_RULES, "");
    use_machine("mi250x"); /* NCCL does not run on it: there is another GPU, and it is not shown */
    EXPECT(8, CONFIG_RULES, "");
    CHECK(config.product_unchecked);
    host = NULL;
    CHECK(dlclose(libraries[0]) == 0 && dlclose(libraries[1]) == 0);
}

/* `#@ library`: another one is known to be another, and refused with RCCLTUNE_STRICT=1 alone. */
static void check_library(const char *fake)
{
    void *library = dlopen(fake, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    clear();
    (void)setenv("FAKE_LIBRARY_CODE", "22809", 1);
    use_file("#@ library NCCL 2.28.9\n" ROW);
    (void)setenv("RCCLTUNE_STRICT", "1", 1);
    EXPECT(8, CONFIG_RULES, ""); /* nobody says which library asks */
    CHECK(config.wanted_library.family == LIBRARY_NCCL &&
          config.library.family == LIBRARY_UNKNOWN && !config_is_of_another_library(&config));
    host = dlsym(library, "fake_logger");
    EXPECT(8, CONFIG_RULES, "");
    CHECK(config.library.patch == 9 && !config_is_of_another_library(&config));
    (void)setenv("FAKE_LIBRARY_CODE", "23007", 1);
    EXPECT(8, CONFIG_WRONG, "rules for NCCL 2.28.9, and this job runs NCCL 2.30.7");
    use_file("#@ library RCCL 2.30.7\n" ROW); /* the same number */
    EXPECT(8, CONFIG_WRONG, "rules for RCCL 2.30.7, and this job runs NCCL 2.30.7");
    (void)setenv("RCCLTUNE_STRICT", "0", 1);
    EXPECT(8, CONFIG_RULES, "");
    CHECK(config_is_of_another_library(&config));
    use_file(ROW);
    EXPECT(8, CONFIG_RULES, "");
    CHECK(!config_is_of_another_library(&config) && config.library.family == LIBRARY_UNKNOWN);
    host = NULL;
    CHECK(dlclose(library) == 0);
}

static void check_placement(void)
{
    clear();
    use_file("#@ requires placement=one-oam\n" ROW);
    use_machine("mi300x-cpx-nps4");
    EXPECT(8, CONFIG_NOTHING, "RCCLTUNE_PLACEMENT=one-oam");
    (void)setenv("RCCLTUNE_PLACEMENT", "one-oam", 1);
    EXPECT(8, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_PLACEMENT", "one-per-oam", 1);
    EXPECT(8, CONFIG_NOTHING, "placement");
    (void)unsetenv("RCCLTUNE_PLACEMENT");
    use_machine("old-driver-cpx"); /* one OAM with eight partitions */
    EXPECT(8, CONFIG_RULES, "");
    EXPECT(16, CONFIG_NOTHING, "placement");
    use_machine("container-one-oam"); /* others exist, and are hidden: another rank may sit there */
    EXPECT(8, CONFIG_NOTHING, "placement");
    use_file("#@ requires placement=one-per-oam\n" ROW);
    EXPECT(8, CONFIG_NOTHING, "placement");
    use_file("#@ requires placement=node\n" ROW);
    EXPECT(8, CONFIG_RULES, "");
}

#define PLAIN "allreduce,0,1024,tree,ll,-1,1,64\n"
#define OWN   "#@ requires placement=one-oam\nallreduce,0,1024,tree,ll,-1,1,8\n"

/* A directory with a file for one placement beside the one for any: what is declared, or known
 * without a doubt, is looked for first, and whatever it has no rule for is asked of the other. */
static void check_placement_in_directory(void)
{
    const char *plain = "rccl_tuner_gfx942_cpx-nps4.csv";
    const char *own = "rccl_tuner_gfx942_cpx-nps4_one-oam.csv";
    clear();
    (void)setenv("RCCLTUNE_CONFIG_DIR", root, 1);
    use_machine("mi300x-cpx-nps4");
    CHECK(tree_put(root, plain, PLAIN));
    CHECK(tree_put(root, own, OWN));
    EXPECT(8, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 8 ranks");
    EXPECT(64, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_PLACEMENT", "node", 1);
    EXPECT(8, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 8 ranks");
    (void)setenv("RCCLTUNE_PLACEMENT", "one-per-oam", 1); /* has no file of its own */
    EXPECT(8, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 8 ranks");
    EXPECT(64, CONFIG_RULES, "");
    (void)setenv("RCCLTUNE_PLACEMENT", "one-oam", 1);
    EXPECT(8, CONFIG_RULES, "");
    EXPECT(64, CONFIG_RULES, ""); /* the job's other communicators */
    CHECK(tree_put(root, own, "#@ requires placement=one-iod\n" ROW)); /* under a false name */
    EXPECT(8, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 8 ranks");
    CHECK(tree_put(root, own, "allreduce,0,1024,bush,ll,-1,-1,8\n"));
    EXPECT(8, CONFIG_WRONG, "_one-oam.csv: refused");
    EXPECT(64, CONFIG_WRONG, "_one-oam.csv: refused");
    CHECK(tree_put(root, own, OWN));
    (void)unsetenv("RCCLTUNE_PLACEMENT");
    use_machine("old-driver-cpx"); /* one OAM with eight partitions */
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    EXPECT(8, CONFIG_RULES, "");
    EXPECT(16, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 16 ranks");
    use_machine("container-one-oam");
    EXPECT(8, CONFIG_NOTHING, "cpx-nps4.csv: no rule for 8 ranks");
    use_machine("mi300x-cpx-nps4"); /* the other file's conditions are not this one's */
    (void)setenv("RCCLTUNE_PLACEMENT", "one-oam", 1);
    CHECK(tree_put(root, own, "#@ library NCCL 2.28.9\nallreduce,0,1024,tree,ll,-1,1,8\n"));
    EXPECT(64, CONFIG_RULES, "");
    CHECK(config.wanted_library.family == LIBRARY_UNKNOWN);
}

static void check_rows_for_a_mode(void)
{
    clear();
    use_file("allreduce,0,9,ring,ll,-1,1,64,-1,-1,cpx,-1\nallreduce,0,9,ring,ll,-1,1,8,-1,-1\n");
    use_machine("mi300x-cpx-nps4");
    EXPECT(64, CONFIG_RULES, "");
    use_machine("mi300x-spx-nps1");
    EXPECT(64, CONFIG_NOTHING, "no rule");
    use_machine("no-sysfs");
    EXPECT(64, CONFIG_UNSURE, "rows for one partition mode");
    EXPECT(8, CONFIG_RULES, ""); /* no such row for 8 ranks: nothing to detect */
    use_machine("old-driver-multi-xcc");
    EXPECT(64, CONFIG_UNSURE, "no value");
}

static void check_hip(const char *fake)
{
    void *runtime = dlopen(fake, RTLD_NOW | RTLD_LOCAL);
    CHECK(runtime != NULL);
    clear();
    use_machine("mi300x-mixed");
    use_file("#@ requires compute=CPX\n" ROW);
    (void)setenv("FAKE_HIP_BUS", "0000:95:00.1", 1);
    EXPECT(64, CONFIG_UNSURE, "different partition modes");
    (void)setenv("FAKE_HIP_BUS", "0000:77:00.1", 1);
    EXPECT(64, CONFIG_UNSURE, "not in sysfs");
    use_machine("mi300x-and-igpu");
    (void)setenv("FAKE_HIP_BUS", "0000:15:00.0", 1);
    use_file("#@ requires compute=SPX arch=gfx942\n" ROW);
    EXPECT(8, CONFIG_RULES, "");
    use_file("#@ requires cus=304\n" ROW);
    EXPECT(8, CONFIG_RULES, "");
    (void)setenv("FAKE_HIP_CUS", "80", 1);
    EXPECT(8, CONFIG_WRONG, "cus=80");
    CHECK(dlclose(runtime) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    machines = argv[1];
    tree_make(root, sizeof root);
    tree_make(machine, sizeof machine);
    check_settings();
    check_files();
    check_long_reasons();
    check_table_limits();
    check_directory();
    check_long_directory();
    check_requirements();
    check_product();
    check_unknown_product();
    check_product_by_library(argv[3], argv[4]);
    check_library(argv[3]);
    check_placement();
    check_placement_in_directory();
    check_rows_for_a_mode();
    check_hip(argv[2]);
    tree_remove(root);
    tree_remove(machine);
    return check_result();
}
