#include "product.h"

#include <stdio.h>
#include <string.h>

enum { MAX_INFORMATION = 8192 };

static const char folder[] = "proc/driver/nvidia/gpus";

/* The GPUs seen so far. */
struct gpus {
    const struct sysroot *root;
    char *product; /* of the first; "" from where one is unknown or another */
    bool any;
};

bool product_name(struct text model, char name[PRODUCT_SIZE])
{
    static const char vendor[] = "NVIDIA";
    size_t used = 0;
    struct text word;
    struct text first = model;
    name[0] = '\0';
    if (text_next_word(&first, &word) &&
        !(text_skip(&word, vendor) && (word.left == 0 || word.at[0] == '-'))) {
        used = (size_t)snprintf(name, PRODUCT_SIZE, "%s", vendor);
    }
    while (text_next_word(&model, &word)) {
        if (used > 0) {
            name[used++] = '-';
        }
        if (used + word.left >= PRODUCT_SIZE) {
            name[0] = '\0';
            return false;
        }
        memcpy(name + used, word.at, word.left);
        used += word.left;
        name[used] = '\0';
    }
    return used > 0;
}

/* Finds the line `Model: NVIDIA H200`. */
static bool find_model(struct text content, struct text *model)
{
    struct text line;
    while (text_next_line(&content, &line)) {
        if (text_skip(&line, "Model:")) {
            *model = line;
            return true;
        }
    }
    return false;
}

static bool visit_gpu(void *argument, const char *name)
{
    struct gpus *gpus = argument;
    char path[128];
    char buffer[MAX_INFORMATION];
    char product[PRODUCT_SIZE] = "";
    struct text content;
    struct text model;
    (void)snprintf(path, sizeof path, "%s/%.40s/information", folder, name);
    if (sysroot_read(gpus->root, path, buffer, sizeof buffer, &content) == READ_OK &&
        find_model(content, &model)) {
        (void)product_name(model, product);
    }
    bool alike = product[0] != '\0' && (!gpus->any || strcmp(product, gpus->product) == 0);
    (void)snprintf(gpus->product, PRODUCT_SIZE, "%s", alike ? product : "");
    gpus->any = true;
    return alike;
}

bool product_detect(const struct sysroot *root, char product[PRODUCT_SIZE])
{
    struct gpus gpus = {.root = root, .product = product};
    product[0] = '\0';
    (void)sysroot_list(root, folder, visit_gpu, &gpus);
    return gpus.any;
}
