#include "settings.h"

#include "reasons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLACEMENT = 24 }; /* struct requirement has room for as much */

/* A variable's value; NULL where it is unset or empty, which mean the same everywhere here. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool bad_value(const char *name, const char *value, const char *wanted, char *reason,
                      size_t size)
{
    (void)snprintf(reason, size, REASON_VARIABLE "%s='%.60s': expected %s", name, value, wanted);
    return false;
}

static bool read_on_error(struct settings *settings, char *reason, size_t size)
{
    const char *value = variable("RCCLTUNE_ON_ERROR");
    struct text text = text_of(value);
    settings->ignore_errors = text_is(text, "ignore");
    if (value != NULL && !settings->ignore_errors && !text_is(text, "fail")) {
        return bad_value("RCCLTUNE_ON_ERROR", value, "fail or ignore", reason, size);
    }
    return true;
}

static bool read_strict(struct settings *settings, char *reason, size_t size)
{
    const char *value = variable("RCCLTUNE_STRICT");
    struct text text = text_of(value);
    settings->strict = text_is(text, "1");
    if (value != NULL && !settings->strict && !text_is(text, "0")) {
        return bad_value("RCCLTUNE_STRICT", value, "0 or 1", reason, size);
    }
    return true;
}

static bool read_mode(struct settings *settings, char *reason, size_t size)
{
    const char *value = variable("RCCLTUNE_MODE");
    if (value == NULL || text_is_in_any_case(text_of(value), "auto")) {
        return true;
    }
    settings->mode_is_set = mode_parse(text_of(value), false, &settings->mode);
    return settings->mode_is_set ||
           bad_value("RCCLTUNE_MODE", value, "auto, none, or a mode such as cpx-nps4", reason,
                     size);
}

/* A placement becomes a part of a file name and is compared with what a file requires. */
static bool read_placement(struct settings *settings, char *reason, size_t size)
{
    const char *value = settings->placement;
    size_t length = value != NULL ? strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    return value == NULL || (value[length] == '\0' && length < MAX_PLACEMENT) ||
           bad_value("RCCLTUNE_PLACEMENT", value, "a name such as node or one-oam", reason, size);
}

static bool read_log(struct settings *settings, char *reason, size_t size)
{
    static const char *const levels[] = {
        [LOG_OFF] = "off", [LOG_SUMMARY] = "summary", [LOG_DECISIONS] = "decisions"};
    const char *value = variable("RCCLTUNE_LOG");
    struct text level = text_of(value);
    struct text file = text_of("");
    if (value == NULL) {
        return true;
    }
    (void)text_split(level, ':', &level, &file);
    for (int i = LOG_OFF; i <= LOG_DECISIONS; i++) {
        if (text_is(level, levels[i])) {
            settings->log = (enum log_level)i;
            settings->log_file = file.left > 0 ? file.at : NULL;
            return true;
        }
    }
    return bad_value("RCCLTUNE_LOG", value, "off, summary or decisions, and :FILE where wanted",
                     reason, size);
}

/* A name with a line feed in it could forge lines of the log. */
static bool names_are_plain(char *reason, size_t size)
{
    static const char *const names[] = {"NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR",
                                        "RCCLTUNE_RECORD", "RCCLTUNE_LOG", "RCCLTUNE_SYSROOT"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (const char *at = variable(names[i]); at != NULL && *at != '\0'; at++) {
            unsigned char c = (unsigned char)*at;
            if (c < ' ' || c == 0x7f) {
                (void)snprintf(reason, size,
                               REASON_VARIABLE "%s: there is a control character in it", names[i]);
                return false;
            }
        }
    }
    return true;
}

bool settings_read(struct settings *settings, char *reason, size_t size)
{
    *settings = (struct settings){
        .rule_file = variable("NCCL_TUNER_CONFIG_FILE"),
        .rule_dir = variable("RCCLTUNE_CONFIG_DIR"),
        .placement = variable("RCCLTUNE_PLACEMENT"),
        .record = variable("RCCLTUNE_RECORD"),
        .sysroot = variable("RCCLTUNE_SYSROOT"),
    };
    if (settings->sysroot == NULL) {
        settings->sysroot = "/";
    }
    return read_on_error(settings, reason, size) && read_strict(settings, reason, size) &&
           read_mode(settings, reason, size) && read_placement(settings, reason, size) &&
           read_log(settings, reason, size) && names_are_plain(reason, size);
}
