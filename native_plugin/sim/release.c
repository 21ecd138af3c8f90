#include "release.h"

#include <stdio.h>
#include <string.h>

/* Newest last: ROCm 6.2, 6.3, 6.4, 7.0, 7.1 and 7.2, 7.11 to 7.13, 7.14 and 10.0. */
static const struct {
    int since;
    const char *rocm;
    int newest_abi;
} releases[] = {{OLDEST_RELEASE, "6.2.0", 1}, {22105, "6.3.0", 2}, {22203, "6.4.2", 3},
                {22606, "7.0.2", 4},          {22707, "7.1.1", 4}, {22803, "7.11.0", 5},
                {23004, "10.0.0", 6}};
enum { N_RELEASES = sizeof releases / sizeof *releases };

const struct rccl_family *rccl_family(int version)
{
    static struct rccl_family family;
    int i = N_RELEASES - 1;
    while (i > 0 && releases[i].since > version)
        i--;
    version = releases[i].since;
    family = (struct rccl_family){
        .rocm = releases[i].rocm,
        .newest_abi = releases[i].newest_abi,
        .n_algorithms = version >= 22606 ? 7 : 6,
        .info_level = version >= 22803 ? 4 : 3,
        .tuner_before_transports = version >= 22803,
        .per_function_env = version >= 22606,
        .override_env = version >= 22606,
        .multi_node_protocol = version >= 22606,
        .exact_zero_wins = version >= 22707,
        .small_reduce_scatter_ll = version >= 22707,
        .new_tuning_line = version >= 22606,
        .csv_tuner = version >= 23004,
        .strict_csv_tuner = version >= 23004,
        .msccl = version >= 23004   ? 0
                 : version >= 22803 ? 1
                                    : 2,
        .mscclpp = version >= 22105 && version < 22707,
        .direct_one_node = version >= 22707,
        .direct_many_nodes = version >= 22606,
        .dda = version >= 23004,
        .unmatched_model = version >= 22803 ? 5 : 0,
        .default_plugin = version >= 22606 ? "libnccl-tuner.so" : "librccl-tuner.so",
    };
    return &family;
}

/* RT24 is rccl-tests ae3e6357 (2024-09), RTmid c0eac93f (2025), RT25 the form between RTmid and
 * RTnew that real MI355X logs show, RTnew 2.17.9 (rocm-systems 032d8f63), NT nccl-tests 2.19.6. */
static const struct benchmark_family benchmarks[N_BENCHES] = {
    [BENCH_RT24] = {.name = "rt24",
                    .default_warmup = 5,
                    .errors_line = true,
                    .options = "t:g:b:e:i:f:n:m:w:p:c:o:d:r:z:Y:T:G:C:O:F:E:R:a:y:s:u:h:q:"},
    [BENCH_RTMID] = {.name = "rtmid",
                     .default_warmup = 5,
                     .errors_line = true,
                     .options = "t:g:b:e:i:f:n:m:w:p:c:o:d:r:z:Y:T:G:C:O:F:E:R:a:y:s:u:h:q:x:Z:"},
    [BENCH_RT25] = {.name = "rt25",
                    .default_warmup = 5,
                    .errors_line = true,
                    .starting_line = true,
                    .group_column = true,
                    .options = "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:Y:T:G:C:O:F:E:R:a:y:u:hq:x:Z:M:"},
    [BENCH_RTNEW] =
        {.name = "rtnew",
         .default_warmup = 1,
         .fine_numbers = true,
         .warm_every_size = true,
         .starting_line = true,
         .group_column = true,
         .version_after_hash = true,
         .unalign = false,
         .reserves_memory = true,
         .options = "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:y:T:hG:C:a:R:x:D:V:J:S:M:Y:u:O:q:F:E:Z:X:A:"},
    [BENCH_NT] = {.name = "nt",
                  .default_warmup = 1,
                  .fine_numbers = true,
                  .warm_every_size = true,
                  .starting_line = true,
                  .group_column = true,
                  .version_after_hash = true,
                  .unalign = true,
                  .reserves_memory = true,
                  .options = "t:g:b:e:i:f:n:m:w:N:p:I:K:c:o:d:r:z:y:T:hG:C:a:R:x:D:V:J:S:M:u:"},
};

const struct benchmark_family *benchmark_family(int family)
{
    return &benchmarks[family];
}

int benchmark_by_name(const char *name, size_t length)
{
    for (int i = 0; i < N_BENCHES; i++) {
        if (strlen(benchmarks[i].name) == length && memcmp(benchmarks[i].name, name, length) == 0)
            return i;
    }
    return -1;
}

int version_code(const char *text)
{
    int major, minor, patch, used = 0;
    if (sscanf(text, "%2d.%2d.%2d%n", &major, &minor, &patch, &used) != 3 || text[used] != '\0')
        return 0;
    if (major != 2 || minor < 0 || minor > 99 || patch < 0 || patch > 99)
        return 0;
    int code = major * 10000 + minor * 100 + patch;
    return code < OLDEST_RELEASE ? 0 : code;
}
