/* What libraries log of a call, in the forms of their releases (rccltune/logs/library_log.py lists the
 * sources), as a setting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "tuning_log.h"

extern char **environ;

static char folder[] = "/tmp/rccltune-said-XXXXXX";
static char log_path[128];

static void append(const char *line)
{
    FILE *log = fopen(log_path, "a");
    CHECK(log != NULL && fputs(line, log) >= 0 && fclose(log) == 0);
}

static void check_line(const char *line, const char *setting)
{
    char read[48];
    tuning_log_skip();
    append(line);
    tuning_log_read(read, sizeof read);
    CHECK(strcmp(read, setting) == 0);
}

static int n_resets;
static char **entries; /* of the environment, while the log was on */

static void count_resets(void)
{
    n_resets++;
    CHECK(environ == entries); /* a thread that walks through it while the log ends */
}

int main(void)
{
    char read[48];
    setenv("NCCL_DEBUG", "WARN", 1);
    unsetenv("NCCL_DEBUG_SUBSYS");
    unsetenv("NCCL_DEBUG_FILE");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(log_path, sizeof log_path, "%s/log-0.txt", folder);
    tuning_log_read(read, sizeof read);
    CHECK(*read == '\0'); /* nobody switched the log on */
    tuning_log_start(folder, 0);
    CHECK(strcmp(getenv("NCCL_DEBUG_FILE"), log_path) == 0);
    CHECK(strcmp(getenv("NCCL_DEBUG"), "INFO") == 0);
    CHECK(strstr(getenv("NCCL_DEBUG_SUBSYS"), "TUNING") != NULL);
    tuning_log_read(read, sizeof read);
    CHECK(strcmp(read, "?") == 0); /* and the library said nothing */
    check_line("h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL "
               "channel{Lo..Hi}={0..3}\n",
               "ring/ll/4");
    check_line("h:1:2 [0] NCCL INFO AllGather: 1048576 Bytes -> Algo PAT proto SIMPLE "
               "channel{Lo..Hi}={2..2}\n",
               "pat/simple/1");
    check_line("h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 1 proto 0 time 12.8\n", "ring/ll");
    check_line("h:1:2 [0] NCCL INFO 8 Bytes -> Algo 0 proto 1 time 12.8\n", "tree/ll128");
    check_line("h:1:2 [0] NCCL INFO AllReduce: opCount 0 8 Bytes -> Algorithm Tree protocol "
               "LL128 channel{Lo..Hi}={0..15}\n",
               "tree/ll128/16");
    check_line("h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo NEW proto LL\n", "?");
    check_line("h:1:2 [0] NCCL INFO Connected all rings\n", "?");
    append("h:1:2 [0] NCCL INFO 8 Bytes -> Algo 1 proto 2 time 1\n");
    tuning_log_skip();
    tuning_log_read(read, sizeof read);
    CHECK(strcmp(read, "?") == 0); /* of the call before */
    entries = environ;
    CHECK(!tuning_log_stop(NULL)); /* a library that cannot: it goes on */
    CHECK(strcmp(getenv("NCCL_DEBUG"), "INFO") == 0);
    CHECK(tuning_log_stop(count_resets) && n_resets == 1);
    CHECK(strcmp(getenv("NCCL_DEBUG"), "WARN") == 0); /* as the site had it */
    /* What the library takes where nobody sets them: the environment keeps its entries. */
    CHECK(strcmp(getenv("NCCL_DEBUG_SUBSYS"), "INIT,BOOTSTRAP,ENV") == 0);
    CHECK(*getenv("NCCL_DEBUG_FILE") == '\0');
    CHECK(tuning_log_stop(count_resets) && n_resets == 1); /* once */
    tuning_log_resume(NULL);                               /* a library that cannot: it stays off */
    CHECK(strcmp(getenv("NCCL_DEBUG"), "WARN") == 0);
    tuning_log_resume(count_resets);
    CHECK(n_resets == 2);
    CHECK(strcmp(getenv("NCCL_DEBUG"), "INFO") == 0);
    CHECK(strcmp(getenv("NCCL_DEBUG_FILE"), log_path) != 0); /* what was said before stays */
    tuning_log_resume(count_resets);
    CHECK(n_resets == 2); /* once */
    tuning_log_skip();
    tuning_log_read(read, sizeof read);
    CHECK(strcmp(read, "?") == 0);
    CHECK(tuning_log_stop(count_resets) && n_resets == 3);
    tuning_log_start(folder, 3);
    entries = environ;
    tuning_log_read(read, sizeof read);
    CHECK(*read == '\0'); /* rank 0 alone tells */
    CHECK(tuning_log_stop(count_resets) && n_resets == 4);
    unlink(log_path);
    rmdir(folder);
    return check_result();
}
