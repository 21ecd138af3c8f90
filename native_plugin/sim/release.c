#include "release.h"

#include <stdio.h>

const char *const benchmark_names[N_BENCHES] = {"rt24", "rtmid", "rt25", "rtnew", "nt"};

const struct rccl_family *rccl_family(int version)
{
    /* Newest last: ROCm 6.2, 6.3, 6.4, 7.0, 7.1 and 7.2, 7.11 to 7.13, 7.14 and 10.0. */
    static const struct rccl_family families[] = {
        {OLDEST_RELEASE, "6.2.0", 1}, {22105, "6.3.0", 2},    {22203, "6.4.2", 3},
        {ROCM_7_0, "7.0.2", 4},       {ROCM_7_1, "7.1.1", 4}, {ROCM_7_11, "7.11.0", 5},
        {23004, "10.0.0", 6}};
    int i = sizeof families / sizeof *families - 1;
    while (i > 0 && families[i].since > version)
        i--;
    return &families[i];
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
