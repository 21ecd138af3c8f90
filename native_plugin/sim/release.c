#include "release.h"

#include <stdio.h>
#include <string.h>

/* Newest last.  `since` are the releases of ROCm 6.2, 6.3, 6.4, 7.0, 7.1/7.2, 7.11-7.13, 7.14/10.0,
 * 10.1 and the next one. */
static const struct rccl_family families[] = {
    {.since = OLDEST_RELEASE,
     .rocm = "6.2.0",
     .newest_abi = 1,
     .n_algorithms = 6,
     .info_level = 3,
     .msccl = 2,
     .default_plugin = "librccl-tuner.so"},
    {.since = 22105,
     .rocm = "6.3.0",
     .newest_abi = 2,
     .n_algorithms = 6,
     .info_level = 3,
     .msccl = 2,
     .mscclpp = true,
     .default_plugin = "librccl-tuner.so"},
    {.since = 22203,
     .rocm = "6.4.2",
     .newest_abi = 3,
     .n_algorithms = 6,
     .info_level = 3,
     .msccl = 2,
     .mscclpp = true,
     .default_plugin = "librccl-tuner.so"},
    {.since = 22606,
     .rocm = "7.0.2",
     .newest_abi = 4,
     .n_algorithms = 7,
     .info_level = 3,
     .msccl = 2,
     .mscclpp = true,
     .per_function_env = true,
     .override_env = true,
     .multi_node_protocol = true,
     .new_tuning_line = true,
     .direct_many_nodes = true,
     .default_plugin = "libnccl-tuner.so"},
    {.since = 22707,
     .rocm = "7.1.1",
     .newest_abi = 4,
     .n_algorithms = 7,
     .info_level = 3,
     .msccl = 2,
     .per_function_env = true,
     .override_env = true,
     .multi_node_protocol = true,
     .exact_zero_wins = true,
     .small_reduce_scatter_ll = true,
     .new_tuning_line = true,
     .direct_many_nodes = true,
     .direct_one_node = true,
     .default_plugin = "libnccl-tuner.so"},
    {.since = 22803,
     .rocm = "7.11.0",
     .newest_abi = 5,
     .n_algorithms = 7,
     .info_level = 4,
     .msccl = 1,
     .tuner_before_transports = true,
     .per_function_env = true,
     .override_env = true,
     .multi_node_protocol = true,
     .exact_zero_wins = true,
     .small_reduce_scatter_ll = true,
     .new_tuning_line = true,
     .direct_many_nodes = true,
     .direct_one_node = true,
     .unmatched_model = 5,
     .default_plugin = "libnccl-tuner.so"},
    {.since = 23004,
     .rocm = "10.0.0",
     .newest_abi = 6,
     .n_algorithms = 7,
     .info_level = 4,
     .tuner_before_transports = true,
     .per_function_env = true,
     .override_env = true,
     .multi_node_protocol = true,
     .exact_zero_wins = true,
     .small_reduce_scatter_ll = true,
     .new_tuning_line = true,
     .csv_tuner = true,
     .strict_csv_tuner = true,
     .direct_many_nodes = true,
     .direct_one_node = true,
     .dda = true,
     .unmatched_model = 5,
     .default_plugin = "libnccl-tuner.so"},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

const struct rccl_family *rccl_family(int version)
{
    const struct rccl_family *found = &families[0];
    for (int i = 0; i < N_FAMILIES; i++) {
        if (families[i].since <= version)
            found = &families[i];
    }
    return found;
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
