/* How much memory this process holds, for tests that say what costs nothing. */
#ifndef RCCLTUNE_HIP_RESIDENT_H
#define RCCLTUNE_HIP_RESIDENT_H

#include <stdio.h>
#include <unistd.h>

static long resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1)
        pages = -1;
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE) / (1 << 20);
}

#endif
