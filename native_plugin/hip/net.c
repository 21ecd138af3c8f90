/*
 * NICs that carry nothing, one an OAM: enough for RCCL to plan for several hosts.  Its network
 * interface, version 8 (RCCL 2.22 and later ask for it).  Every transfer is over at once; kernels
 * never run, so none has anything to move.
 */
#include <stdio.h>

#include "interfaces.h"

enum { NIC_MBIT_S = 400000, TO_HOST_AND_DEVICES = 3, MANY = 131072 };

static int nothing; /* what handles point to */

void hip_write_nic(FILE *out, int oam, int bus)
{
    fprintf(out,
            "<pci busid=\"0000:%02x:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\" "
            "subsystem_vendor=\"0x15b3\" subsystem_device=\"0x0101\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\">\n<nic><net name=\"sim%d\" dev=\"%d\" speed=\"%d\" port=\"1\" "
            "latency=\"0.000000\" guid=\"0x%x\" maxconn=\"%d\" gdr=\"1\"/></nic>\n</pci>\n",
            (unsigned)bus, oam, oam, NIC_MBIT_S, (unsigned)oam + 1, MANY);
}

static int init(void *logger)
{
    (void)logger;
    return 0;
}

static int devices(int *n)
{
    *n = (hip_node()->n_devices + hip_node()->per_oam - 1) / hip_node()->per_oam;
    return 0;
}

static int get_properties(int device, struct properties *properties)
{
    static char names[HIP_MAX_OAMS][8];
    snprintf(names[device], sizeof names[device], "sim%d", device);
    *properties = (struct properties){.name = names[device],
                                      .guid = (uint64_t)device + 1,
                                      .pointers = TO_HOST_AND_DEVICES,
                                      .mbit_s = NIC_MBIT_S,
                                      .port = 1,
                                      .most_connections = MANY,
                                      .most_receives = 8};
    return 0;
}

static int listen_to(int device, void *handle, void **listener)
{
    (void)device, (void)handle;
    *listener = &nothing;
    return 0;
}

static int connect_to(int device, void *handle, void **connection, void **on_device)
{
    (void)device, (void)handle, (void)on_device;
    *connection = &nothing;
    return 0;
}

static int accept_from(void *listener, void **connection, void **on_device)
{
    (void)listener, (void)on_device;
    *connection = &nothing;
    return 0;
}

static int register_memory(void *connection, void *data, size_t n, int type, void **handle)
{
    (void)connection, (void)data, (void)n, (void)type;
    *handle = &nothing;
    return 0;
}

static int register_file(void *connection, void *data, size_t n, int type, uint64_t offset,
                         int file, void **handle)
{
    (void)offset, (void)file;
    return register_memory(connection, data, n, type, handle);
}

static int forget_memory(void *connection, void *handle)
{
    (void)connection, (void)handle;
    return 0;
}

static int send_to(void *connection, void *data, int n, int tag, void *memory, void **request)
{
    (void)connection, (void)data, (void)n, (void)tag, (void)memory;
    *request = &nothing;
    return 0;
}

static int receive_from(void *connection, int n, void **data, int *sizes, int *tags, void **memory,
                        void **request)
{
    (void)connection, (void)n, (void)data, (void)sizes, (void)tags, (void)memory;
    *request = &nothing;
    return 0;
}

static int flush(void *connection, int n, void **data, int *sizes, void **memory, void **request)
{
    (void)connection, (void)n, (void)data, (void)sizes, (void)memory;
    *request = NULL;
    return 0;
}

static int test(void *request, int *done, int *sizes)
{
    (void)request, (void)sizes;
    *done = 1;
    return 0;
}

static int close_any(void *connection)
{
    (void)connection;
    return 0;
}

static int device_memory(void *connection, void *memory, void **on_device)
{
    (void)connection, (void)memory, (void)on_device;
    return 0;
}

static int consumed(void *connection, int n, void *request)
{
    (void)connection, (void)n, (void)request;
    return 0;
}

const struct network ncclNetPlugin_v8 = {"rccltune",    init,          devices,     get_properties,
                                         listen_to,     connect_to,    accept_from, register_memory,
                                         register_file, forget_memory, send_to,     receive_from,
                                         flush,         test,          close_any,   close_any,
                                         close_any,     device_memory, consumed};
