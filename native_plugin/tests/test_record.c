/* RCCLTUNE_RECORD: what is counted, how it is written, and what is left of a process that is
 * killed: test_record LIBRARY. */
#include "check.h"
#include "host.h"
#include "names.h"
#include "record.h"
#include "tally.h"
#include "tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[256];
static const char *library;

static const char *path_in_root(const char *name)
{
    static char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* Reads a file whole and removes it; the text is the caller's to free. */
static char *take_file(const char *name)
{
    enum { ROOM = 8 << 20 };
    char *text = calloc(1, ROOM);
    FILE *file = fopen(path_in_root(name), "r");
    if (text != NULL && file != NULL) {
        text[fread(text, 1, ROOM - 1, file)] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)remove(path_in_root(name));
    return text;
}

/* The name of the one file in the root that ends so; "" where there is none. */
static const char *file_ending(const char *suffix)
{
    static char name[256];
    DIR *directory = opendir(root);
    name[0] = '\0';
    for (struct dirent *at; directory != NULL && (at = readdir(directory)) != NULL;) {
        size_t length = strlen(at->d_name);
        size_t wanted = strlen(suffix);
        if (length > wanted && strcmp(at->d_name + length - wanted, suffix) == 0) {
            (void)snprintf(name, sizeof name, "%s", at->d_name);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return name;
}

static void ask(struct host *host, int collective, size_t n_bytes, int times)
{
    float table[21];
    struct host_call call = {collective, n_bytes, 1, 0, table, 7, 3, 0};
    for (int i = 0; i < 21; i++) {
        table[i] = 5.0F;
    }
    for (int i = 0; i < times; i++) {
        CHECK(host_ask(host, &call) == ABI_SUCCESS);
    }
    CHECK(call.n_channels == 0 && table[0] > 0.0F); /* recording answers nothing */
}

static void check_every_version(void)
{
    for (int version = 2; version <= 7; version++) {
        struct host host;
        CHECK(host_load(&host, library, version) && host_init(&host, 64, 2) == ABI_SUCCESS);
        CHECK(host.context != NULL);
        ask(&host, 4, 1024, 300); /* beyond one look at the clock */
        ask(&host, 4, 0, 2);
        ask(&host, 0, 1024, 1);
        ask(&host, 7, 1024, 3); /* no collective of ours */
        CHECK(host_finalize(&host) == ABI_SUCCESS);
        char *text = take_file("record.csv");
        char wanted[64];
        CHECK(strncmp(text, record_header, strlen(record_header)) == 0);
        (void)snprintf(wanted, sizeof wanted, " abi=%d host=", version);
        CHECK(strstr(text, wanted) != NULL && strstr(text, " host= ") == NULL);
        CHECK(
            strstr(text, " nRanks=64 nNodes=2 calls=303 keys=3 beyond=0 unknown=3 state=whole\n") !=
            NULL);
        CHECK(strstr(text, "\nallreduce,1024,64,2,300,1024,307200\n") != NULL);
        CHECK(strstr(text, "\nallreduce,0,64,2,2,0,0\n") != NULL);
        CHECK(strstr(text, "\nbroadcast,1024,64,2,1,1024,1024\n") != NULL);
        CHECK(strcmp(file_ending(".part"), "") == 0);
        free(text);
    }
}

/* A call counts once, however often its library asks about it, and one that a symmetric kernel
 * serves does not. */
static void check_every_release(void)
{
    for (int release = 0; release < N_HOST_RELEASES; release++) {
        struct host host;
        float table[21];
        CHECK(host_load(&host, library, 6) && host_init(&host, 4, 1) == ABI_SUCCESS);
        for (int i = 0; i < 30; i++) {
            struct host_call call = {i % 5, 100, 1, 0, table, 7, 3, 0};
            for (int cell = 0; cell < 21; cell++) {
                table[cell] = call.collective != 4 && cell < 3 ? -1.0F : 5.0F;
            }
            CHECK(host_issue(&host, (enum host_release)release, &call) == ABI_SUCCESS);
            CHECK(host_issue_in_windows(&host, (enum host_release)release, &call) == ABI_SUCCESS);
        }
        CHECK(host_finalize(&host) == ABI_SUCCESS);
        char *text = take_file("record.csv");
        CHECK(strstr(text, " calls=30 keys=5 beyond=0 unknown=0 state=whole\n") != NULL);
        for (int collective = 0; collective < 5; collective++) {
            char wanted[64];
            (void)snprintf(wanted, sizeof wanted, "\n%s,100,4,1,6,100,600\n",
                           collective_name(collective));
            CHECK(strstr(text, wanted) != NULL);
        }
        free(text);
    }
}

static void check_rules_go_on(void)
{
    struct host host;
    float table[21] = {1.0F, 1.0F, 1.0F, 1.0F};
    struct host_call call = {4, 5, 1, 0, table, 7, 3, 0};
    CHECK(tree_put(root, "rules.csv", "allreduce,0,9,ring,ll,7,-1,-1\n"));
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path_in_root("rules.csv"), 1);
    CHECK(host_load(&host, library, 6) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(host_ask(&host, &call) == ABI_SUCCESS && call.n_channels == 7 && table[3] <= 0.0F);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    char *text = take_file("record.csv");
    CHECK(strstr(text, "\nallreduce,5,8,1,1,5,5\n") != NULL);
    free(text);
}

/* Keys beyond the limit, and sizes that no key holds, are counted per power of two. */
static void check_beyond(void)
{
    struct host host;
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    for (size_t n_bytes = 1; n_bytes <= TALLY_MAX_KEYS; n_bytes++) {
        ask(&host, 4, n_bytes * 512, 1);
    }
    ask(&host, 4, 512, 1);      /* known: exact */
    ask(&host, 4, 1000, 2);     /* new: 512 to 1023 */
    ask(&host, 2, 0, 1);        /* new, but nothing to round */
    ask(&host, 3, SIZE_MAX, 2); /* the sum saturates */
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    char *text = take_file("record.csv");
    CHECK(strstr(text, " calls=65542 keys=65536 beyond=5 unknown=0 state=whole\n") != NULL);
    CHECK(strstr(text, "\nallreduce,512,8,1,2,512,1024\n") != NULL);
    CHECK(strstr(text, "\nallreduce,512,8,1,2,1023,2000\n") != NULL);
    CHECK(strstr(text, "\nallreduce,33554432,8,1,1,33554432,33554432\n") != NULL);
    CHECK(strstr(text, "\nallgather,0,8,1,1,0,0\n") != NULL);
    CHECK(strstr(text, "\nreducescatter,9223372036854775808,8,1,2,18446744073709551615,"
                       "18446744073709551615\n") != NULL);
    free(text);
}

/* Runs `body` in a process of its own and gives how it ended. */
static int in_child(void (*body)(struct host *host))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct host host;
        if (!host_load(&host, library, 6) || host_init(&host, 8, 1) != ABI_SUCCESS) {
            _exit(99);
        }
        ask(&host, 4, 64, 10);
        body(&host);
        _exit(98);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void leave(struct host *host)
{
    (void)host;
    exit(7);
}

static void be_killed(struct host *host)
{
    (void)sleep(1); /* past the first pause */
    ask(host, 4, 64, 512);
    (void)raise(SIGKILL);
}

static void fork_and_leave(struct host *host)
{
    pid_t child = fork();
    if (child == 0) {
        exit(0); /* has the parent's communicators, and must not write them */
    }
    (void)waitpid(child, NULL, 0);
    (void)host_finalize(host);
    exit(7);
}

static void check_ends_of_processes(void)
{
    int status = in_child(leave);
    char *text = take_file("record.csv");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(strstr(text, " calls=10 keys=1 beyond=0 unknown=0 state=exit\n") != NULL);
    CHECK(strstr(text, "\nallreduce,64,8,1,10,64,640\n") != NULL);
    CHECK(strcmp(file_ending(".part"), "") == 0);
    free(text);

    status = in_child(be_killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    text = take_file("record.csv");
    CHECK_STRING(text, record_header);
    free(text);
    const char *left = file_ending(".part");
    CHECK(strncmp(left, "record.csv.", 11) == 0);
    text = take_file(left);
    CHECK(strncmp(text, record_header, strlen(record_header)) == 0);
    CHECK(strstr(text, " state=unfinished\n") != NULL);
    CHECK(strstr(text, "\nallreduce,64,8,1,513,64,") != NULL || /* where the 256th calls are */
          strstr(text, "\nallreduce,64,8,1,257,64,") != NULL);
    free(text);

    status = in_child(fork_and_leave);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    text = take_file("record.csv");
    const char *first = strstr(text, "#@ comm ");
    CHECK(first != NULL && strstr(first + 1, "#@ comm ") == NULL);
    free(text);
}

static void check_what_cannot_be_written(void)
{
    struct host host;
    CHECK(host_load(&host, library, 5));
    (void)fflush(stderr);
    int saved = dup(STDERR_FILENO);
    FILE *said = freopen(path_in_root("said"), "w", stderr);
    CHECK(said != NULL);
    (void)setenv("RCCLTUNE_RECORD", "/proc/nonexistent/record.csv", 1);
    int refused = host_init(&host, 8, 1);
    (void)setenv("RCCLTUNE_RECORD", "/tmp/%q", 1);
    int misnamed = host_init(&host, 8, 1);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    int ignored = host_init(&host, 8, 1);
    bool inert = host.context == NULL;
    (void)unsetenv("RCCLTUNE_ON_ERROR");
    (void)setenv("RCCLTUNE_RECORD", path_in_root("full"), 1);
    int full = host_init(&host, 8, 1);
    CHECK(remove(path_in_root("full")) == 0 && tree_put(root, "full", "somebody else's"));
    ask(&host, 4, 64, 70);
    (void)host_finalize(&host);
    (void)fflush(stderr);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    CHECK(refused == ABI_INVALID_USAGE && misnamed == ABI_INVALID_USAGE);
    CHECK(ignored == ABI_SUCCESS && inert && full == ABI_SUCCESS);
    char *text = take_file("said");
    CHECK(strstr(text, "RCCLTUNE_RECORD: '/proc/nonexistent/record.csv' cannot be written") !=
          NULL);
    CHECK(strstr(text, "RCCLTUNE_RECORD: '/tmp/%q' cannot be written") != NULL);
    const char *once = strstr(text, "the record could not be written to ");
    CHECK(once != NULL && strstr(once + 1, "the record could not") == NULL);
    free(text);
    text = take_file("full");
    CHECK_STRING(text, "somebody else's");
    free(text);
    text = take_file(file_ending(".part")); /* what could not be appended is not lost */
    CHECK(strstr(text, "\nallreduce,64,8,1,70,64,4480\n") != NULL);
    free(text);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    library = argv[1];
    tree_make(root, sizeof root);
    (void)setenv("RCCLTUNE_RECORD", path_in_root("record.csv"), 1);
    check_every_version();
    check_every_release();
    check_rules_go_on();
    check_beyond();
    check_ends_of_processes();
    check_what_cannot_be_written();
    tree_remove(root);
    return check_result();
}
