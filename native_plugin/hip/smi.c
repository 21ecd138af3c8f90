/* A stand-in librocm_smi64: the eight functions that the library imports. */
#include "hip.h"

enum { LINK_XGMI = 2 };
struct smi_version {
    uint32_t major, minor, patch;
    const char *build;
};

EXPORT int rsmi_init(uint64_t flags)
{
    (void)flags;
    return 0;
}

EXPORT int rsmi_num_monitor_devices(uint32_t *n)
{
    *n = (uint32_t)rccltune_hip_count();
    return 0;
}

EXPORT int rsmi_dev_pci_id_get(uint32_t device, uint64_t *id)
{
    int bus, function;
    rccltune_hip_address((int)device, &bus, &function);
    *id = (uint64_t)bus << 8 | (uint64_t)function;
    return 0;
}

/* Every device is linked to every other by XGMI, as the topology file has it. */
EXPORT int rsmi_topo_get_link_type(uint32_t from, uint32_t to, uint64_t *hops, int *type)
{
    (void)from, (void)to;
    *hops = 1;
    *type = LINK_XGMI;
    return 0;
}

/* The weights that Linux's amdkfd gives: 15 between whole GPUs; in CPX 13 inside an OAM, 41 beyond.
 */
EXPORT int rsmi_topo_get_link_weight(uint32_t from, uint32_t to, uint64_t *weight)
{
    int bus[2], function;
    rccltune_hip_address((int)from, &bus[0], &function);
    rccltune_hip_address((int)to, &bus[1], &function);
    *weight = !rccltune_hip_is_parted() ? 15 : bus[0] == bus[1] ? 13 : 41;
    return 0;
}

/* New enough for everything that the library asks of the firmware. */
EXPORT int rsmi_dev_firmware_version_get(uint32_t device, int block, uint64_t *version)
{
    (void)device, (void)block;
    *version = 200;
    return 0;
}

EXPORT int rsmi_version_get(struct smi_version *version)
{
    *version = (struct smi_version){7, 8, 0, "stand-in"};
    return 0;
}

EXPORT int rsmi_status_string(int status, const char **text)
{
    *text = status == 0 ? "success" : "an error of the stand-in";
    return 0;
}
