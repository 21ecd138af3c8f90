/*
 * The topology as RCCL would have found it from one device: its own OAM and links and nobody
 * else's (all NICs, where there are any), which is what each rank knows before they tell each
 * other.  Eight OAMs on two sockets behind PCI switches; every device is linked to every other (a
 * fully connected board).  What a node in CPX really shows RCCL has not been published:
 * docs/simulated-nodes.md says what depends on it, and RCCLTUNE_HIP_LINKS asks for another
 * board: `double` links, or `sparse` ones, inside an OAM and to the same position of other OAMs
 * alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip.h"

static bool links_are(const char *word)
{
    const char *links = getenv("RCCLTUNE_HIP_LINKS");
    return links != NULL && strcmp(links, word) == 0;
}

static bool is_linked(int device, int other)
{
    int n = hip_node()->per_oam;
    return other != device &&
           (!links_are("sparse") || device / n == other / n || device % n == other % n);
}

static void bridge(FILE *out, int bus, const char *vendor, const char *device)
{
    fprintf(out,
            "<pci busid=\"0000:%02x:00.0\" class=\"0x060400\" vendor=\"%s\" device=\"%s\" "
            "subsystem_vendor=\"0x0000\" subsystem_device=\"0x0000\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\">\n",
            (unsigned)bus, vendor, device);
}

static void gpu(FILE *out, int device)
{
    int bus, function;
    rccltune_hip_address(device, &bus, &function);
    fprintf(out,
            "<pci busid=\"0000:%02x:00.%x\" class=\"0x120000\" vendor=\"0x1002\" device=\"0x74a1\" "
            "subsystem_vendor=\"0x1002\" subsystem_device=\"0x74a1\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\">\n"
            "<gpu dev=\"%d\" sm=\"%d\" gcn=\"%s\" arch=\"38911\" rank=\"%d\" gdr=\"1\">\n",
            (unsigned)bus, (unsigned)function, device, hip_node()->compute_units, hip_node()->arch,
            device);
    for (int other = 0; other < hip_node()->n_devices; other++) {
        if (!is_linked(device, other))
            continue;
        rccltune_hip_address(other, &bus, &function);
        fprintf(out, "<xgmi target=\"0000:%02x:00.%x\" count=\"%d\" tclass=\"0x120000\"/>\n",
                (unsigned)bus, (unsigned)function, links_are("double") ? 2 : 1);
    }
    fputs("</gpu>\n</pci>\n", out);
}

static void write_oam(FILE *out, int oam, int device)
{
    int bus, function;
    rccltune_hip_address(oam * hip_node()->per_oam, &bus, &function);
    bridge(out, bus - 7, "0x15b3", "0x1979");
    bridge(out, bus - 4, "0x15b3", "0x1979");
    bridge(out, bus - 2, "0x1022", "0x1500");
    if (device / hip_node()->per_oam == oam)
        gpu(out, device);
    fputs("</pci>\n</pci>\n", out);
    if (hip_node()->has_nics)
        hip_write_nic(out, oam, bus - 5);
    fputs("</pci>\n", out);
}

char *rccltune_hip_topology(void)
{
    int device = hip_current();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    fputs("<system version=\"2\">\n", out);
    int oams = (hip_node()->n_devices + hip_node()->per_oam - 1) / hip_node()->per_oam;
    for (int cpu = 0; cpu < 2; cpu++) {
        fprintf(out,
                "<cpu numaid=\"%d\" affinity=\"00000003\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
                "familyid=\"6\" modelid=\"143\">\n",
                cpu);
        for (int oam = cpu * HIP_MAX_OAMS / 2; oam < (cpu + 1) * HIP_MAX_OAMS / 2 && oam < oams;
             oam++) {
            if (hip_node()->has_nics || oam == device / hip_node()->per_oam)
                write_oam(out, oam, device);
        }
        fputs("</cpu>\n", out);
    }
    fputs("</system>\n", out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
