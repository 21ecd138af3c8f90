#include "mode.h"

#include <stdio.h>

static const struct {
    const char *upper;
    const char *lower;
} computes[] = {
    [COMPUTE_UNKNOWN] = {"?", "?"}, [COMPUTE_NONE] = {"NONE", "none"},
    [COMPUTE_SPX] = {"SPX", "spx"}, [COMPUTE_DPX] = {"DPX", "dpx"},
    [COMPUTE_TPX] = {"TPX", "tpx"}, [COMPUTE_QPX] = {"QPX", "qpx"},
    [COMPUTE_CPX] = {"CPX", "cpx"},
};

bool mode_is_known(struct mode mode)
{
    return mode.compute == COMPUTE_NONE || (mode.compute != COMPUTE_UNKNOWN && mode.memory != 0);
}

bool mode_equal(struct mode a, struct mode b)
{
    return a.compute == b.compute && a.memory == b.memory;
}

uint8_t mode_compute(struct text text)
{
    for (uint8_t i = COMPUTE_NONE; i <= COMPUTE_CPX; i++) {
        if (text_is_in_any_case(text, computes[i].upper)) {
            return i;
        }
    }
    return COMPUTE_UNKNOWN;
}

uint8_t mode_memory(struct text text)
{
    uint64_t number = 0;
    if (!text_skip(&text, "NPS") && !text_skip(&text, "nps")) {
        return 0;
    }
    if (text_unsigned(text, &number) != TEXT_NUMBER_OK || number < 1 || number > 16) {
        return 0;
    }
    return (uint8_t)number;
}

bool mode_parse(struct text text, bool half, struct mode *mode)
{
    struct text compute = text;
    struct text memory = {text.at, 0};
    bool split = text_split(text, '-', &compute, &memory);
    struct mode read = {mode_compute(compute), mode_memory(memory)};
    bool none = read.compute == COMPUTE_NONE;
    if (read.compute == COMPUTE_UNKNOWN || (split && (none || read.memory == 0)) ||
        (!split && !half && !none)) {
        return false;
    }
    *mode = read;
    return true;
}

const char *mode_text(struct mode mode, char buffer[MODE_TEXT_SIZE])
{
    if (mode.compute == COMPUTE_NONE || mode.compute == COMPUTE_UNKNOWN) {
        return computes[mode.compute].lower;
    }
    if (mode.memory == 0) {
        (void)snprintf(buffer, MODE_TEXT_SIZE, "%s-?", computes[mode.compute].lower);
    } else {
        (void)snprintf(buffer, MODE_TEXT_SIZE, "%s-nps%u", computes[mode.compute].lower,
                       (unsigned)mode.memory);
    }
    return buffer;
}

const char *mode_compute_name(uint8_t compute)
{
    return computes[compute].upper;
}
