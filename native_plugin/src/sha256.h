/* SHA-256 (FIPS 180-4), so that a log line can be compared with `sha256sum FILE` on every rank. */
#ifndef RCCLTUNE_SHA256_H
#define RCCLTUNE_SHA256_H

#include "text.h"

enum { SHA256_TEXT_SIZE = 65 };

/* Writes the digest of `content` as 64 lower-case hexadecimal digits and a NUL. */
void sha256_text(struct text content, char digest[SHA256_TEXT_SIZE]);

#endif
