/*
 * The .node reader under arbitrary bytes.  With libFuzzer
 *
 *   CC=clang cmake -S native_plugin/sim -B /tmp/simfuzz
 * -DRCCLTUNE_SIM_SANITIZE=fuzzer-no-link,address,undefined cmake --build /tmp/simfuzz -t
 * sim_fuzz_node && /tmp/simfuzz/tests/sim_fuzz_node -max_total_time=60 CORPUS
 *
 * and without it a replay: each file as it is, cut at every place, and with each byte changed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node node;
    char message[160];
    if (!node_parse((const char *)data, size, &node, message, sizeof message))
        return 0;
    /* What was accepted must also be usable. */
    settle_variants(&node, &(struct manner){.graph = 2});
    for (int i = 0; i < node.n_curves; i++) {
        const struct selector *w = &node.curves[i].where;
        struct situation s = {.collective = w->collective,
                              .ranks = node.ranks,
                              .n_bytes = 777,
                              .mixed = true,
                              .mixed_launch = true,
                              .ran_before = ~(uint64_t)0,
                              .ran_in_pass_before = ~(uint64_t)0,
                              .first_after_switch = true,
                              .what = {.path = (uint8_t)w->path,
                                       .algorithm = (uint8_t)w->algorithm,
                                       .protocol = (uint8_t)w->protocol,
                                       .cap = 5}};
        struct noise noise = {.seed = 1, .launch = "fuzz"};
        (void)true_time(&node, &s);
        (void)block_factor(&node, &noise, &s, 1, 777);
    }
    node_free(&node);
    return 0;
}

#ifndef WITH_LIBFUZZER
int main(int argc, char **argv)
{
    static uint8_t data[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
        for (size_t cut = 0; cut < size; cut++) {
            /* An exact copy, so that a sanitizer sees a read behind the end. */
            uint8_t *copy = malloc(cut > 0 ? cut : 1);
            if (copy == NULL)
                return 1;
            memcpy(copy, data, cut);
            LLVMFuzzerTestOneInput(copy, cut);
            free(copy);
        }
        static const uint8_t changes[] = {'\0', ' ', '-', '9', '%', '\n', 0xff};
        for (size_t at = 0; at < size; at++) {
            uint8_t kept = data[at];
            for (size_t c = 0; c < sizeof changes; c++) {
                data[at] = changes[c];
                LLVMFuzzerTestOneInput(data, size);
            }
            data[at] = kept;
        }
    }
    return 0;
}
#endif
