/* A node's file from the disk, and its memory; node_file.c reads the text. */
#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const place_names[N_PLACES] = {"node", "one-iod", "one-oam", "one-per-oam", "other"};

enum { LARGEST_FILE = 64 << 20 };

/* What must have been said before the node can be used; NULL where all is there. */
const char *node_gap(const struct node *node)
{
    if (node->ranks % node->nodes != 0)
        return "the nodes do not share the ranks evenly";
    for (int i = 0; i < node->n_curves; i++) {
        if (node->curves[i].points.n == 0)
            return "a curve has no points";
    }
    for (int i = 0; i < node->n_effects; i++) {
        const struct effect *effect = &node->effects[i];
        if ((effect->shape == SHAPE_POINTS && effect->points.n == 0) ||
            (effect->shape == SHAPE_CHANNELS && effect->n_rows == 0))
            return "an effect has no points";
        for (int j = 0; j < effect->n_rows; j++) {
            if (effect->rows[j].points.n == 0)
                return "a row of a channel scaling has no points";
        }
    }
    return NULL;
}

static void free_points(struct points *points)
{
    free(points->log_bytes);
    free(points->log_value);
}

void node_free(struct node *node)
{
    for (int i = 0; i < node->n_curves; i++)
        free_points(&node->curves[i].points);
    for (int i = 0; i < node->n_effects; i++) {
        free_points(&node->effects[i].points);
        for (int j = 0; j < node->effects[i].n_rows; j++)
            free_points(&node->effects[i].rows[j].points);
        free(node->effects[i].rows);
    }
    for (int i = 0; i < node->n_variants; i++)
        free(node->variants[i].conditions);
    for (int i = 0; i < N_SPREADS; i++)
        free_points(&node->spreads[i]);
    free(node->drift);
    free(node->curves);
    free(node->effects);
    free(node->faults);
    free(node->variants);
    free(node->bypasses);
    memset(node, 0, sizeof *node);
}

void node_load(const char *path, struct node *node)
{
    if (path == NULL || *path == '\0')
        sim_fail("RCCLTUNE_SIM_NODE names no node file: this program is no benchmark, rccltune "
                 "starts it under --simulate");
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        sim_fail("cannot open the node file %s: %s", path, strerror(errno));
    char *data = NULL;
    size_t length = 0, room = 1 << 16, got;
    do {
        char *larger = room <= LARGEST_FILE ? realloc(data, room) : NULL;
        if (larger == NULL)
            sim_fail("the node file %s is too large", path);
        data = larger;
        got = fread(data + length, 1, room - length, file);
        length += got;
        room *= 2;
    } while (got > 0);
    if (ferror(file))
        sim_fail("cannot read the node file %s", path);
    fclose(file);
    char message[160];
    if (!node_parse(data, length, node, message, sizeof message))
        sim_fail("%s, %s", path, message);
    free(data);
}
