/*
 * Detection of the arch, CU count and partition mode of the GPU at hand, and of NVIDIA's product.
 *
 * Read from KFD's topology (which GPUs this process may use) and from the amdgpu driver's PCI
 * directories (their partition modes).  A device is always looked up by its own PCI address; there
 * is no "first card that answers", since cards differ and a primary card is only every eighth DRM
 * number.
 */
#ifndef RCCLTUNE_PARTITION_H
#define RCCLTUNE_PARTITION_H

#include "mode.h"
#include "product.h"

enum machine_status {
    MACHINE_KNOWN,      /* the GPU at hand was found; single values may still be unknown */
    MACHINE_NO_AMD_GPU, /* this machine certainly has none that the process may use */
    MACHINE_UNKNOWN,    /* `reason` says why */
};

/* The machine as detected.  Values that could not be read are 0 or "". */
struct machine {
    enum machine_status status;
    char reason[160];
    char arch[16];        /* gfx942 */
    uint32_t device;      /* PCI device id, 0x74a1 */
    uint32_t n_cus;       /* of one partition */
    struct mode mode;     /* of the GPU at hand */
    bool mixed;           /* visible GPUs of the same arch are in different modes */
    uint32_t n_visible;   /* KFD GPU nodes that this process may use, partitions counted singly */
    uint32_t n_hidden;    /* KFD nodes that exist but are denied */
    uint32_t n_sockets;   /* PCI devices (OAMs) behind the visible nodes */
    uint32_t n_on_socket; /* visible nodes of the GPU at hand */
    bool has_nvidia;      /* NVIDIA's driver shows GPUs here */
    char product[PRODUCT_SIZE]; /* of all of them, NVIDIA-H200; of AMD's GPUs none is read */
};

/* Describes the machine below `root` as seen from the GPU at `bus_id` (NULL or "" when no runtime
 * says which one that is: then the visible GPUs must be alike).  `n_cus` is the runtime's CU count,
 * or 0. */
void machine_detect(const struct sysroot *root, const char *bus_id, uint32_t n_cus,
                    struct machine *machine);

#endif
