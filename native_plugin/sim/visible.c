#include "visible.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* A variable filters and reorders what is left.  A token that is no device, or one twice, ends the
 * list. */
static int apply(const char *name, int n_visible, int *visible)
{
    const char *value = getenv(name);
    int kept[MAX_RANKS], n = 0;
    if (value == NULL)
        return n_visible;
    struct text rest = text_of(value), word;
    while (text_split(&rest, ',', &word)) {
        int64_t index;
        if (!text_to_int(word, 0, n_visible - 1, &index))
            break;
        bool twice = false;
        for (int i = 0; i < n; i++)
            twice = twice || kept[i] == visible[index];
        if (twice)
            break;
        kept[n++] = visible[index];
    }
    memcpy(visible, kept, (size_t)n * sizeof *kept);
    return n;
}

int visible_devices(int n, int *visible)
{
    for (int i = 0; i < n; i++)
        visible[i] = i;
    n = apply("ROCR_VISIBLE_DEVICES", n, visible);
    return apply(getenv("HIP_VISIBLE_DEVICES") != NULL ? "HIP_VISIBLE_DEVICES"
                                                       : "CUDA_VISIBLE_DEVICES",
                 n, visible);
}
