/*
 * Codes of what the plugin refuses and decides.  They begin what it says of itself, so that people
 * can look them up (docs/plugin.md) and `rccltune why` explains them; a code keeps its meaning.
 */
#ifndef RCCLTUNE_REASONS_H
#define RCCLTUNE_REASONS_H

/* A communicator stops, or goes on without rules. */
#define REASON_VARIABLE   "R01 bad-variable: "
#define REASON_MEMORY     "R02 out-of-memory: "
#define REASON_DIRECTORY  "R03 directory-unreadable: "
#define REASON_NO_MODE    "R04 mode-unknown: "
#define REASON_NO_AMD_GPU "R05 no-amd-gpu: "
#define REASON_NO_ARCH    "R06 arch-unknown: "
#define REASON_UNSET      "R07 nothing-set: "
#define REASON_FILE       "R08 file-unreadable: "
#define REASON_NO_FILE    "R09 no-file-here: "
#define REASON_REFUSED    "R10 file-refused: "
#define REASON_TOO_MANY   "R11 too-many-rules: "
#define REASON_MODE       "R12 mode-mismatch: "
#define REASON_MACHINE    "R13 machine-mismatch: "
#define REASON_SCALE      "R14 other-scale: "
#define REASON_PLACEMENT  "R15 other-placement: "
#define REASON_LIBRARY    "R16 other-library: "
#define REASON_RECORD     "R17 record-failed: "
#define REASON_LOG        "R18 log-failed: "

/* What a call was answered. */
#define REASON_HIT          "R20 rule-hit"
#define REASON_FALLBACK     "R21 fallback-hit"
#define REASON_NO_RULE      "R22 no-rule"
#define REASON_UNSELECTABLE "R23 not-selectable"
#define REASON_TO_HOST      "R24 left-to-library"
#define REASON_CONDITION    "R25 other-conditions"
#define REASON_NO_RULES     "R26 without-rules"

/* Of a file with `#@ bits`. */
#define REASON_BITS "R27 bits-not-kept: "

#endif
