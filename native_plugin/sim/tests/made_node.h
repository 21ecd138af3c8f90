/* A node file that a test writes for itself: straight lines, every setting, no noise. */
#ifndef RCCLTUNE_SIM_MADE_NODE_H
#define RCCLTUNE_SIM_MADE_NODE_H

#include <stddef.h>

/* Write it, and name it in the environment: variants before the curves, anything behind them. */
void made_node(const char *before, const char *behind);
/* Of the node after the next made_node(), or of the file that there is, its noise replaced. */
void made_scale(int ranks, int nodes);
void made_arch(const char *arch);
void made_product(const char *name);
void made_noise(const char *records);

/* Microseconds of a setting there. */
double made_us(const char *setting, size_t bytes);

/* A folder of this test's own. */
const char *made_folder(void);

#endif
