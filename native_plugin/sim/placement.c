#include "placement.h"

/* Which I/O die of the node a device is on; -1 where the file does not say. */
static int iod_of(const struct node *node, int device)
{
    int of_oam = device % node->devices_per_oam, oam = device / node->devices_per_oam;
    return node->devices_per_iod > 0 ? oam * node->devices_per_oam + of_oam / node->devices_per_iod
                                     : -1;
}

int placement_of(const struct node *node, const int *devices, int n)
{
    int per_oam[MAX_RANKS] = {0}, oams = 0, most = 0;
    int first_iod = iod_of(node, devices[0]);
    bool one_iod = first_iod >= 0;
    if (n == node->ranks)
        return PLACE_NODE;
    for (int i = 0; i < n; i++) {
        int oam = devices[i] / node->devices_per_oam;
        one_iod = one_iod && iod_of(node, devices[i]) == first_iod;
        oams += per_oam[oam]++ == 0;
        most = per_oam[oam] > most ? per_oam[oam] : most;
    }
    if (one_iod)
        return PLACE_ONE_IOD;
    return oams == 1 ? PLACE_ONE_OAM : most == 1 ? PLACE_ONE_PER_OAM : PLACE_OTHER;
}
