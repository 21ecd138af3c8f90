/*
 * The product of NVIDIA's GPUs, as their driver names it in
 * /proc/driver/nvidia/gpus/BDF/information.
 *
 * CUDA is neither linked nor asked.  Which of several GPUs is ours is therefore not known, so a
 * node with different ones has no product.
 */
#ifndef RCCLTUNE_PRODUCT_H
#define RCCLTUNE_PRODUCT_H

#include "sysroot.h"

enum { PRODUCT_SIZE = 96 };

/* Writes a product as rule files name it, in one word as the Kubernetes label
 * nvidia.com/gpu.product has it: NVIDIA-H100-80GB-HBM3.  Drivers before 470 left the vendor out, so
 * it is put in front where it is missing.  False, and "", where nothing is left or it is too long.
 */
bool product_name(struct text model, char name[PRODUCT_SIZE]);

/* Reads the product of all GPUs that the driver shows below `root`; "" where that is not known or
 * they differ.  Whether there are any is returned. */
bool product_detect(const struct sysroot *root, char product[PRODUCT_SIZE]);

#endif
