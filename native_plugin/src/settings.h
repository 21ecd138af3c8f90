/*
 * The plugin's environment, read once per communicator and never during a call.
 *
 * Every variable and its meaning is in docs/plugin.md.  A value that is not understood is a mistake
 * made for every rank alike, so it is an error, not a default.
 */
#ifndef RCCLTUNE_SETTINGS_H
#define RCCLTUNE_SETTINGS_H

#include "mode.h"

enum log_level { LOG_OFF, LOG_SUMMARY, LOG_DECISIONS };

/* Strings point into the environment and are used during init only; NULL where unset or empty. */
struct settings {
    const char *rule_file; /* NCCL_TUNER_CONFIG_FILE */
    const char *rule_dir;  /* RCCLTUNE_CONFIG_DIR */
    const char *placement; /* RCCLTUNE_PLACEMENT */
    const char *record;    /* RCCLTUNE_RECORD, a file-name pattern */
    const char *log_file;  /* from RCCLTUNE_LOG, a file-name pattern; NULL is stderr */
    const char *sysroot;   /* RCCLTUNE_SYSROOT, "/" by default */
    enum log_level log;
    bool ignore_errors; /* RCCLTUNE_ON_ERROR=ignore */
    bool strict;        /* RCCLTUNE_STRICT=1 */
    bool mode_is_set;   /* RCCLTUNE_MODE */
    struct mode mode;
};

/* Reads the environment.  False, with `reason` filled, where a value is not understood;
 * `settings->ignore_errors` is right even then. */
bool settings_read(struct settings *settings, char *reason, size_t size);

#endif
